"""fairseq-preprocess in a process that has imported fairseq, to avoid a slow start."""

import logging
from contextlib import contextmanager

import pytest


@contextmanager
def in_this_process():
    """Let preparations call fairseq-preprocess in this process, silently."""
    from fairseq_cli import preprocess as fairseq_preprocess  # here, so that other tests start

    from fairseq_posattn.preparation import binarize

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(binarize, "preprocess", preprocess)
        patched.setattr(fairseq_preprocess.logger, "level", logging.ERROR)
        yield


def preprocess(dest, jobs, tell=None, **flags):
    from fairseq import options
    from fairseq_cli import preprocess as fairseq_preprocess

    words = ["--destdir", str(dest), "--workers", "1"]
    for name, value in flags.items():
        if value is not False and value is not None:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    handlers = list(fairseq_preprocess.logger.handlers)
    fairseq_preprocess.main(options.get_preprocessing_parser().parse_args(words))
    for handler in set(fairseq_preprocess.logger.handlers) - set(handlers):
        fairseq_preprocess.logger.removeHandler(handler)
        handler.close()
