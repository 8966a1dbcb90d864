"""A checkout with a page and nothing measured, and the command that fills its pages."""

import pytest

from fairseq_posattn.common.errors import UsageError
from tools.pages.command import main


@pytest.fixture
def fill_numbers(capsys):
    """Run the command on a checkout; return what it prints, or its error."""

    def fill_numbers(root, *arguments, refused=False):
        try:
            assert main([*map(str, arguments)], "fill_numbers", root) == 0
        except UsageError as error:
            assert refused, error
            return str(error)
        assert not refused
        return capsys.readouterr().out

    return fill_numbers


@pytest.fixture
def checkout(tmp_path):
    """A function that makes it, with this text in its README.md."""

    def checkout(text):
        for folder in ("examples/results", "benchmarks/results"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "README.md").write_text(text)
        return tmp_path

    return checkout
