"""Importing fairseq without the warnings of its own use of Hydra, and its wish for tensorboardX."""

import contextlib
import logging
import warnings


@contextlib.contextmanager
def quietly():
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
