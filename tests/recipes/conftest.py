"""Recipes asked for in the tests' own process."""

from pathlib import Path

import pytest

from fairseq_posattn.recipes.commands.recipe import ask, find


@pytest.fixture
def asked_of():
    """``asked_of("dman/iwslt14", "--seed", 2)``: what is asked for, on a machine with one GPU."""

    def asked_of(name, *arguments, data="/data", looks=True):
        words = ["--data", data, "--out", "/out", *(["--dry-run"] if looks else []), *arguments]
        return ask(find(name), list(map(str, words)), name, Path())

    return asked_of


@pytest.fixture
def runs_of(asked_of):
    """The runs of it."""

    def runs_of(*arguments, **options):
        return asked_of(*arguments, **options).runs()

    return runs_of
