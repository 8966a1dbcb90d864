"""fairseq's preprocessing in the process of the tests."""

import logging

import pytest

from fairseq_posattn.preparation import binarize


@pytest.fixture
def fairseq_here(monkeypatch):
    """Run fairseq-preprocess in this process, which has imported fairseq already."""
    from fairseq import options  # here, so that other tests start at once
    from fairseq_cli import preprocess as fairseq_preprocess

    def preprocess(dest, jobs, tell=None, **flags):
        words = ["--destdir", str(dest), "--workers", "1"]
        for name, value in flags.items():
            if value is not False and value is not None:
                words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        handlers = list(fairseq_preprocess.logger.handlers)
        fairseq_preprocess.main(options.get_preprocessing_parser().parse_args(words))
        for handler in set(fairseq_preprocess.logger.handlers) - set(handlers):
            fairseq_preprocess.logger.removeHandler(handler)
            handler.close()

    monkeypatch.setattr(binarize, "preprocess", preprocess)
    monkeypatch.setattr(fairseq_preprocess.logger, "level", logging.ERROR)
