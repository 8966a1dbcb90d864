"""Recipes asked for in the tests' own process."""

from pathlib import Path

import pytest

from fairseq_posattn.recipes.command import ask, find
from fairseq_posattn.recipes.commands import Place


@pytest.fixture
def runs_of():
    """``runs_of("dman/iwslt14", "--seed", 2)``: its runs on a machine with so many GPUs."""

    def runs_of(
        name, *arguments, gpus=None, data="/data", out="/out", features=None, references=True
    ):
        words = [*map(str, arguments), "--dry-run"]
        if "--" in words:
            words.insert(words.index("--"), words.pop())
        asked = ask(find(name), words, name, Path())
        gpus = asked.gpus() if gpus is None else gpus
        return asked.runs(Place(Path(data), Path(out), gpus, features or {}, references))

    return runs_of
