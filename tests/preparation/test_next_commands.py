"""The commands printed after ``next:`` keep a bounded number of checkpoints.

Those of custom data are parsed by ``own_training.printed_training``, wherever they are printed.
"""

import shlex
from pathlib import Path

import pytest

from fairseq_posattn.preparation.command import next_dataset, next_recipe
from fairseq_posattn.preparation.commands.prepare import KINDS
from fairseq_posattn.recipes.commands.recipe import main

RECIPES = {
    (kind, name): corpus
    for kind, entry in KINDS.items()
    for name, corpus in entry.corpora.items()
    if corpus.recipe is not None
}
RETENTION = {"--no-epoch-checkpoints", "--keep-last-epochs"}


@pytest.mark.parametrize(("kind", "name"), RECIPES)
def test_recipes_keep_few_checkpoints(kind, name, capsys):
    corpus = RECIPES[kind, name]
    if kind in ("translation", "summarization"):
        next_recipe(corpus, "--data", "data")
    else:
        next_dataset(corpus, Path("data-bin") / name)
    program, command, *words = shlex.split(capsys.readouterr().out.removeprefix("next:\n"))
    assert (program, command) == ("posattn", "recipe")
    assert main([*words, "--dry-run"]) == 0
    trainings = [
        line for line in capsys.readouterr().out.splitlines() if "--save-dir" in line.split()
    ]
    assert trainings
    assert all(RETENTION & set(line.split()) for line in trainings)
