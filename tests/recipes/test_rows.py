"""Rows of a table, made of what its runs have left in their folders."""

import json
from pathlib import Path

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.commands.recipe import ask, find
from fairseq_posattn.recipes.rows import make_rows
from fairseq_posattn.recipes.tables import ours, print_tables

RECIPE = "classifiers/compare_small"
# Right and wrong of the two folds of each seed.
RUNS = {
    "transformer": (("rrrrrwwwww", "rrrrrrwwww"), ("rrrrrrrwww", "rrrwwwwwww")),
    "mpsan": (("rrrrrrrrrw", "rrrrrrrrrr"), ("rrrrrrrrrr", "rrrrrrrrww")),
}


def test_a_folder_without_a_seed_is_named(tmp_path):
    plan = ask(find(RECIPE), ["--list", "--out", str(tmp_path)], RECIPE, Path())
    entry = next(plan.entries())
    (entry.folder / "seedling").mkdir(parents=True)
    (entry.folder / "seedling" / "result.json").write_text("{}")
    with pytest.raises(UsageError, match="seedling"):
        make_rows(plan.recipe, [entry], "command", plan.title)


@pytest.mark.parametrize("seeds", [1, 2])
def test_models_are_compared_over_all_folds_of_a_seed(seeds, tmp_path, capsys):
    plan = ask(find(RECIPE), ["--list", "--out", str(tmp_path)], RECIPE, Path())
    listed = [entry for entry in plan.entries() if entry.table.endswith(": cr")]
    entries = [entry for entry in listed if entry.row in RUNS]
    for entry in entries:
        for seed, folds in enumerate(RUNS[entry.row][:seeds], 1):
            for fold, marks in enumerate(folds):
                run(entry.folder / f"fold{fold}-seed{seed}", seed, fold, marks)
    rows = make_rows(plan.recipe, entries, "a command", plan.title)
    table = {row["row"]: row for row in rows}
    assert table["mpsan"]["scores"]["accuracy"][:1] == [90.0]
    assert table["mpsan"]["folds"] == [0, 1]
    compared = table["mpsan"]["compared"]
    assert (compared["sentences"], compared["folds"]) == (20, 2)
    assert compared["runs"] == [seeds, seeds]
    found = compared["metrics"]["accuracy"]
    right = {
        name: sum(fold.count("r") for folds in runs[:seeds] for fold in folds)
        for name, runs in RUNS.items()
    }
    assert found["difference"] == 5 * (right["mpsan"] - right["transformer"]) / seeds
    assert found["p"] < 0.05 and found["interval"][0] > 0
    assert "compared" not in table["transformer"]
    # Of the folds of one seed, 90 and 100; of two seeds, 95 and 90.
    said = {1: "95.00 ± 7.07", 2: "92.50 ± 3.54"}[seeds]
    assert ours(table["mpsan"], "accuracy") == said
    print_tables(plan.recipe, rows)
    (printed,) = (line for line in capsys.readouterr().out.splitlines() if "| mpsan" in line)
    assert said in printed and f"| {seeds} × 2 folds |" in printed


def run(folder, seed, fold, marks):
    """A fold's run, of which the marks say what it has right, of alternate classes."""
    folder.mkdir(parents=True)
    scores = {"accuracy": 100 * marks.count("r") / len(marks)}
    result = {
        **{"scores": scores, "examples": {"train": 90, "test": len(marks)}, "word vectors": 50},
        **{"parameters": 1000, "parameters without word vectors": 500, "updates": 10},
        "settings": {
            **{"seed": str(seed), "fold": str(fold)},
            "train": "--best-checkpoint-metric accuracy",
        },
        **{"hardware": "CPU", "versions": {"torch": "2.13.0"}, "date": "2026-11-21"},
    }
    (folder / "result.json").write_text(json.dumps(result))
    wrong = {"a": "b", "b": "a"}
    gold = ["ab"[place % 2] for place in range(len(marks))]
    said = [right if mark == "r" else wrong[right] for right, mark in zip(gold, marks, strict=True)]
    lines = [f"{one}\t{right}\n" for one, right in zip(said, gold, strict=True)]
    (folder / "predictions-test.txt").write_text("".join(lines))
