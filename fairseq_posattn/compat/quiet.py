"""Importing fairseq without the warnings of its own use of Hydra, and its wish for tensorboardX.

And without the log that it sets up meanwhile, which is for the program to do.
"""

import contextlib
import logging
import warnings


@contextlib.contextmanager
def quietly():
    root = logging.getLogger()
    disabled, handlers, level = root.manager.disable, list(root.handlers), root.level
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)
