"""The modules of fairseq's commands, as far as one is loaded.

They are not imported here, as that sets up the logging of the program.
"""

import sys


def training_loop():
    return _loaded("fairseq_cli.train", "validate_and_save")


def generation_loop():
    return _loaded("fairseq_cli.generate", "get_symbols_to_strip_from_output")


def interactive_loop():
    return _loaded("fairseq_cli.interactive", "buffered_read")


def _loaded(command, function):
    """The module, which may run as a script; None where it is not loaded."""
    for name in (command, "__main__"):
        module = sys.modules.get(name)
        if hasattr(module, function):
            return module
    return None
