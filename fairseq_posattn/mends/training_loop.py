"""Where fairseq-train's loop is: its functions, and what it keeps as their attributes."""

import sys


def training_loop():
    """The module ``fairseq_cli.train``, which may run as a script; None where none is loaded.

    It is not imported here, as it sets up the logging of the program.
    """
    for name in ("fairseq_cli.train", "__main__"):
        module = sys.modules.get(name)
        if hasattr(module, "validate_and_save"):
            return module
    return None
