"""A checkout with one page, and the command that fills its pages."""

import json
import re

import pytest

from fairseq_posattn.common.errors import UsageError
from tools.pages.command import main


@pytest.fixture
def fill_numbers(capsys):
    """Run the command on a checkout; return its output or error."""

    def fill_numbers(root, *arguments, refused=False):
        try:
            assert main([*map(str, arguments)], "fill_numbers", root) == 0
        except UsageError as error:
            assert refused and "\n" not in str(error), error
            return str(error)
        assert not refused
        return capsys.readouterr().out

    return fill_numbers


@pytest.fixture
def checkout(tmp_path):
    """Return a function that writes a checkout with the given README.md and results."""

    def checkout(text, *rows):
        for folder in ("results", "benchmarks/results"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "README.md").write_text(text)
        for number, row in enumerate(rows):
            (tmp_path / "results" / f"{number}.json").write_text(json.dumps(row))
        return tmp_path

    return checkout


@pytest.fixture
def unpadded():
    """Return a function that removes the padding of Markdown tables."""
    return lambda text: re.sub(" +", " ", re.sub(":?-{3,}:?", "-", text))
