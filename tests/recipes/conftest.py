"""Recipes asked for in the tests' own process."""

from pathlib import Path

import pytest

from fairseq_posattn.recipes.command import ask, find


@pytest.fixture
def runs_of():
    """``runs_of("dman/iwslt14", "--seed", 2)``: its runs on a machine with one GPU."""

    def runs_of(name, *arguments, data="/data", looks=True):
        words = ["--data", data, "--out", "/out", *(["--dry-run"] if looks else []), *arguments]
        return ask(find(name), list(map(str, words)), name, Path()).runs()

    return runs_of
