"""fairseq's commands tell what they do on standard output, in lines with time, level and name.

One of fairseq-fixed 0.12.3.1's models sets up the log while it is imported, before the command can:
fairseq-generate, -interactive, -validate, -preprocess and -eval-lm then write to standard error
without the time, and with all that any library has to say, Hydra and matplotlib for example.
"""

import logging
import os
import sys
from pathlib import Path

from fairseq_posattn.compat.patching import when_applied


@when_applied
def set_up():
    """Set the log up as the command would have, if that model has set it up."""
    if _is_a_command() and _is_the_models():
        logging.basicConfig(
            format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
            level=os.environ.get("LOGLEVEL", "INFO").upper(),
            stream=sys.stdout,
            force=True,
        )


def _is_a_command():
    """Whether fairseq's is the program, or one that asks fairseq for a model."""
    program = Path(sys.argv[0] if sys.argv else "")
    return program.name.startswith("fairseq-") or program.parent.name == "fairseq_cli"


def _is_the_models():
    """Whether the log is as ``logging.basicConfig(level=logging.DEBUG)`` leaves it."""
    root = logging.getLogger()
    forms = [getattr(handler.formatter, "_fmt", None) for handler in root.handlers]
    return root.level == logging.DEBUG and forms == [logging.BASIC_FORMAT]
