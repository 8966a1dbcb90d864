"""Recipes of translation from the data to the table, in their tiny form."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
from forked_recipes import EXAMPLES

from fairseq_posattn.common import figures
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.training.training_log import TrainingLog

SETUP1 = "mtsa/table6_setup1"


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """A place for the generated corpus, which the first test to need it makes."""
    return tmp_path_factory.mktemp("numbers") / "numbers.en-de"


def only(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


def has_numbers(row):
    return bool(row["scores"]) or any(number is not None for number in row["paper"].values())


def table_of(printed):
    return printed[printed.index("\n| row") : printed.index("\nours")]


@pytest.mark.parametrize("recipe", ["dman/table5_locality", "dman/gigaword"])
def test_tiny_form(recipe_run, tmp_path, recipe):
    """With averaging; with what is measured in a model; with summaries and their ROUGE."""
    out = tmp_path / "o u t"
    printed = recipe_run(recipe, "--tiny", "--rows", "DMAN (released)", "--out", out)
    assert "error" not in printed
    assert re.search(r"DMAN \(released\) \(1 of 1\): update 4 of 4: validation loss \d", printed)
    table = json.loads((out / f"{Path(recipe).name}.json").read_text())
    assert table["tiny"]
    rows = {row["row"]: row for row in table["rows"]}
    listed = [line.split("\t") for line in recipe_run(recipe, "--list").splitlines()]
    assert [line[1] for line in listed] == list(rows)
    shown = {f"| {name} " in printed for name, row in rows.items() if has_numbers(row)}
    assert shown == {True}
    measured = [row for row in rows.values() if row["scores"]]
    for row in measured:
        assert list(row["scores"]) == list(row["paper"])
        assert row["seeds"] == [1]
    if recipe == "dman/table5_locality":
        for name in ("DMAN", "SAN"):  # a wider window holds more
            within = [rows[f"{name} {window}"]["scores"]["layer 1"][0] for window in (1, 2, 4)]
            assert 0 < within[0] < within[1] < within[2] <= 100
        return
    (row,) = measured
    assert (row["row"], row["updates"]) == ("DMAN (released)", 4)
    assert row["data"].endswith(", 10 sentences of the test set")
    assert f"ours: {row['metric']}, {row['signature']}\n" in printed
    assert row["versions"]["torch"] == version("torch")
    assert row["hardware"].startswith("CPU: ")


def test_first_sentences_are_scored_and_tabled(recipe_run, tmp_path):
    """Tiny texts are one sentence each, of another language than their summaries."""
    printed = recipe_run("dman/cnn_dailymail", "--tiny", "--rows", "LEAD-3", "--out", tmp_path)
    assert "fairseq-train" not in printed and "|lead:3|" in printed
    table = json.loads((tmp_path / "cnn_dailymail.json").read_text())
    (row,) = [row for row in table["rows"] if row["scores"]]
    assert (row["row"], list(row["scores"])) == ("LEAD-3", list(row["paper"]))
    assert "parameters" not in row


def test_two_rows_at_a_time_and_none_of_them_again(recipe_run, numbers, tmp_path, monkeypatch):
    arguments = [SETUP1, "--tiny", "--data", numbers, "--out", tmp_path]
    first = recipe_run(*arguments, "--jobs", 2)
    assert "Transformer (1 of 2): train" in first and "MTSA (2 of 2): train" in first
    assert "MTSA (2 of 2): batch 3 of 3\n" in first
    drawn = tmp_path / "table6_setup1-curves.png"
    assert f"learning curves: {drawn}\n" in first
    drawn.unlink()
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    second = recipe_run(*arguments)
    assert "no figures: pictures need matplotlib: pip install" in second
    assert not drawn.exists()
    assert second.count("is finished") == 2
    assert "fairseq-train" not in second
    assert table_of(first) == table_of(second)
    assert table_of(recipe_run(*arguments, "--table")) == table_of(first)


def test_steps_alone(recipe_run, numbers, tmp_path):
    """One after the other they come to what a run of all of them comes to."""
    arguments = [SETUP1, "--tiny", "--data", numbers, "--rows", "MTSA", "--out", tmp_path]
    too_soon = recipe_run(*arguments, "--steps", "generate", refused=True)
    assert "checkpoint_last.pt" in too_soon and "--steps train" in too_soon
    for step, made in (
        ("train", "checkpoint_last.pt"),
        ("generate", "generate-test.txt"),
        ("score", "result.json"),
    ):
        assert list(tmp_path.glob(f"*/seed1/{made}")) == []
        recipe_run(*arguments, "--steps", step)
        only(tmp_path, f"*/seed1/{made}")
    assert "is finished" in recipe_run(*arguments)


def test_an_interrupted_run_goes_on(recipe_run, tmp_path):
    arguments = ["dman/iwslt14", "--tiny", "--rows", "DMAN (released)", "--out", tmp_path]
    arguments += ["--checkpoint", "average"]
    recipe_run(*arguments)
    folder = only(tmp_path, "*/seed1")
    uninterrupted = json.loads((folder / "result.json").read_text())
    for name in ("result.json", "average.pt", "trained", "checkpoint_2_4.pt"):
        (folder / name).unlink()
    shutil.copy(folder / "checkpoint_1_2.pt", folder / "checkpoint_last.pt")
    (folder / "generate-test.txt").write_text("half of the tran")

    recipe_run(*arguments)
    log = (folder / "train.log").read_text()
    assert "@ 2 updates" in log.rpartition("Loaded checkpoint")[2]
    resumed = json.loads((folder / "result.json").read_text())
    elsewhere = {"versions": None, "date": None}
    assert {**resumed, **elsewhere} == {**uninterrupted, **elsewhere}


def test_more_updates_go_on_from_the_last_checkpoint(recipe_run, numbers, tmp_path):
    """As if it had been trained so long from the start; the shorter run stays."""
    arguments = [SETUP1, "--tiny", "--data", numbers, "--rows", "MTSA"]
    recipe_run(*arguments, "--out", tmp_path / "a")
    shorter = only(tmp_path / "a", "*/seed1/result.json")
    printed = recipe_run(*arguments, "--out", tmp_path / "a", "--max-update", 6)
    assert f"continues from {shorter.with_name('checkpoint_last.pt')}" in printed
    recipe_run(*arguments, "--out", tmp_path / "b", "--max-update", 6)
    (longer,) = [path for path in tmp_path.glob("a/*/seed1/result.json") if path != shorter]
    scores = [
        json.loads(path.read_text()) for path in (longer, only(tmp_path, "b/*/*/result.json"))
    ]
    assert scores[0]["scores"] == scores[1]["scores"]
    assert [result["updates"] for result in scores] == [6, 6]
    logs = [
        TrainingLog(path.with_name("train.log"))
        for path in (longer, *tmp_path.glob("b/*/*/result.json"))
    ]
    whole, other = (log.points("loss", "valid") for log in logs)
    assert whole == other and len(whole) > 1  # the learning curve, too
    assert json.loads(shorter.read_text())["updates"] == 4


def test_training_that_fails_can_be_begun_again(recipe_run, numbers, tmp_path):
    arguments = [SETUP1, "--tiny", "--data", numbers, "--rows", "MTSA", "--out", tmp_path]
    mistake = ["--", "--encoder-sublayers", "dmann,ffn"]
    error = recipe_run(*arguments, *mistake, refused=True).splitlines()[-1]
    assert "dmann" in error and "train.log" in error
    assert list(tmp_path.glob("*/seed1/result.json")) == []
    recipe_run(*arguments)
    only(tmp_path, "*/seed1/result.json")


def test_a_row_trains_with_the_rate_that_validation_chose(recipe_run, numbers, tmp_path):
    """All its seeds; what was tried is not tried again, and its checkpoints are gone."""
    arguments = [SETUP1, "--tiny", "--data", numbers, "--rows", "MTSA", "--out", tmp_path]
    tune = ["--tune-updates", 3, "--tune"]
    printed = recipe_run(*arguments, *tune, "1e-5,1e-1,1e30", "--parallel", 2)
    (row,) = (
        row
        for row in json.loads((tmp_path / "table6_setup1.json").read_text())["rows"]
        if row["scores"]
    )
    tuning = row["tuning"]
    losses = {}
    for log in tmp_path.glob("tuning/*/seed1/train.log"):
        rate = re.search(r"-([\d.]+(?:e[-+]\d+)?)-\w+$", log.parents[1].name)
        losses[rate[1]] = TrainingLog(log).points("loss", "valid")[-1]
    assert losses["1e-05"][1] > losses["0.1"][1]
    tried = {"1e-05": losses["1e-05"][1], "0.1": losses["0.1"][1], "1e+30": None}
    assert {losses[rate][0] for rate in ("1e-05", "0.1")} == {3}
    assert (tuning["tried"], tuning["chosen"], tuning["updates"]) == (tried, 0.1, 3)
    kept = only(tmp_path, "*/tuning.json")
    assert json.loads(kept.read_text()) == tuning
    assert " --lr 0.1 " in (kept.parent / "seed1" / "settings").read_text()
    assert "| 0.1 |" in re.sub(" +", " ", printed)
    assert "the lowest validation loss after 3 updates (seed 1)\n" in printed
    assert list(tmp_path.glob("tuning/**/*.pt")) == []
    assert row["command"].endswith(" --tune 1e-05,0.1,1e+30 --tune-updates 3")

    again = recipe_run(*arguments, *tune, "1e-5,1e-1,1e30", "--seed", 2)
    assert again.count("+ fairseq-train") == 1
    assert {path.name for path in kept.parent.iterdir()} == {"seed1", "seed2", "tuning.json"}
    one_more = recipe_run(*arguments, *tune, "1e-5,1e-1,1e30,2e-5")
    assert one_more.count("+ fairseq-train") == 1
    refused = recipe_run(*arguments, *tune, "1e30,1e31", refused=True)
    assert "MTSA diverged with each learning rate of --tune 1e+30,1e+31" in refused


def test_data_that_is_not_there(recipe_run, tmp_path):
    out = tmp_path / "out"
    error = recipe_run("dman/iwslt14", "--gpus", 0, "--data", "no t", "--out", out, refused=True)
    command = f"posattn prepare translation iwslt14 --dest '{Path('no t').resolve()}'"
    assert "has no dict.de.txt" in error and command in error
    assert not out.exists()


STUBBORN = """#!/bin/sh
trap 'echo saved; echo saved >"{folder}/saved"; exit 0' TERM
echo ready >"{folder}/ready"
while :; do sleep 0.1; done
"""


@pytest.fixture
def stubborn(recipe_run, numbers, tmp_path):
    """A recipe whose second seed is in training, and saves before it ends."""
    recipe_run(SETUP1, "--tiny", "--data", numbers, "--out", tmp_path, "--rows", "MTSA")
    launcher = tmp_path / "launcher"
    launcher.write_text(STUBBORN.format(folder=tmp_path))
    launcher.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "fairseq_posattn.cli", "recipe", SETUP1, "--tiny"]
        + ["--data", numbers, "--out", tmp_path, "--seed", "2", "--launcher", launcher],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "ready").exists():
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal(stubborn, tmp_path, number):
    """What is running is ended, with what it had started; nothing more is begun."""
    stubborn.send_signal(number)
    _, said = stubborn.communicate(timeout=60)
    assert stubborn.returncode == 130
    assert (tmp_path / "saved").exists()
    assert said.splitlines()[-1].endswith("the same command continues from here")
    assert "MTSA (2 of 2): train" not in said


def test_killed(stubborn, tmp_path):
    """What is running is ended all the same, and its log has all that it says."""
    stubborn.kill()
    stubborn.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while not (tmp_path / "saved").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    [log] = tmp_path.glob("*/seed2/train.log")
    assert log.read_text() == "saved\n"


# --- The scripts -------------------------------------------------------------------------------


def test_every_recipe_has_a_script_that_is_thin():
    for name in RECIPES:
        assert f'/recipe.sh" {name} "$@"' in (EXAMPLES / f"{name}.sh").read_text()
    long = {
        path.relative_to(EXAMPLES).as_posix()
        for path in EXAMPLES.rglob("*.sh")
        if len(path.read_text().splitlines()) > 40
    }
    assert long <= {"quickstart/run.sh"}


def test_a_script_does_what_the_command_does(recipe_run, tmp_path):
    """With the data and the checkpoints of the checkout."""
    printed = subprocess.run(
        ["bash", EXAMPLES / "dman" / "table3_sublayers.sh", "--dry-run", "--rows", "C#1 (paper)"],
        cwd=tmp_path,
        env={"POSATTN_ENV": sys.prefix, **os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
    )
    assert printed.returncode == 0, printed.stderr
    data = EXAMPLES.parent / "data-bin" / "iwslt14"
    assert (
        f"fairseq-train {data} --user-dir {EXAMPLES.parent / 'fairseq_posattn'} " in printed.stdout
    )
    assert list(tmp_path.iterdir()) == []
    other = subprocess.run(
        ["bash", EXAMPLES / "dman" / "table3_sublayers.sh", "--rows", "C#9"],
        env={"POSATTN_ENV": sys.prefix, **os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
    )
    assert other.returncode == 1
    assert other.stderr.startswith("table3_sublayers: error: --rows C#9: there is no row 'C#9'")
    assert other.stderr.count("\n") == 1
