"""Runs that go on where a shorter one ended, where that is as if they had been trained alone."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from fairseq_posattn.recipes import prepared_data
from fairseq_posattn.recipes.earlier_runs import adopt, go_on
from fairseq_posattn.recipes.runs import Run

FIXED = "--lr-scheduler inverse_sqrt --lr 1e-3"


@pytest.fixture
def went_on(tmp_path):
    """What a run of 200 updates says and has, beside runs of the lengths and files given."""

    def went_on(flags, earlier, own_flags=None, after_waiting=""):
        for length, files in earlier.items():
            folder = tmp_path / f"model-{length}" / "seed1"
            folder.mkdir(parents=True)
            settings = ["seed 1", f"train {flags} --max-update {length}", "score bleu"]
            (folder / "settings").write_text("".join(f"{line}\n" for line in settings))
            for name in files:
                (folder / name).write_text(f"{name} of {length}")
        own = ("seed 1", f"train {own_flags or flags} --max-update 200", "score bleu")
        run = Run("model", tmp_path / "model-200" / "seed1", own, ())
        run.folder.mkdir(parents=True)
        said = []

        @contextmanager
        def locked(folder):
            """Before the lock is had, and once it is free, another run trains there."""
            last = folder / "checkpoint_last.pt"
            last.write_text(after_waiting or last.read_text())
            yield
            last.write_text("torn")

        go_on(run, said.append, locked)
        return said, {path.name: path.read_text() for path in run.folder.iterdir()}

    return went_on


FILES = ["checkpoint_last.pt", "checkpoint_best.pt", "train.log", "result.json"]


def test_it_goes_on_from_the_longest_that_is_shorter(went_on):
    """With its log, so that learning curves are whole."""
    (said,), files = went_on(FIXED, {50: FILES, 150: FILES, 300: FILES})
    assert said.startswith("goes on from ") and said.endswith("model-150/seed1/checkpoint_last.pt")
    assert files == {name: f"{name} of 150" for name in FILES[:3]}


def test_one_that_is_being_trained_is_waited_for(went_on):
    _, files = went_on(FIXED, {150: FILES}, after_waiting="of update 150")
    assert files["checkpoint_last.pt"] == "of update 150"


def test_the_longest_that_has_its_last_checkpoint(went_on):
    (said,), files = went_on(FIXED, {50: FILES, 150: FILES[1:]})
    assert "model-50" in said and files["train.log"] == "train.log of 50"


def test_without_a_last_checkpoint_it_says_that_it_begins(went_on):
    (said,), files = went_on(FIXED, {150: FILES[1:]})
    assert "model-150/seed1 is shorter, but without its checkpoint_last.pt" in said
    assert said.endswith("trains from the beginning") and not files


@pytest.mark.parametrize(
    "schedule",
    [
        "--lr-scheduler cosine",
        "--lr-scheduler=cosine",
        "--lr-scheduler fixed --lr-scheduler polynomial_decay",
        "--lr-scheduler tri_stage --phase-ratio (0.1,0.4,0.5)",
    ],
)
def test_a_schedule_that_depends_on_the_length(went_on, schedule):
    (said,), files = went_on(schedule, {150: FILES})
    assert said.endswith("depends on it: trains from the beginning") and not files


@pytest.mark.parametrize(
    "schedule",
    [
        "--lr-scheduler cosine --lr-period-updates 90",
        "--lr-scheduler polynomial_decay --total-num-update 90",
        "--lr-scheduler tri_stage --hold-steps 90",
        "--lr 1",
    ],
)
def test_a_schedule_that_does_not(went_on, schedule):
    (said,), files = went_on(schedule, {150: FILES})
    assert said.startswith("goes on from") and len(files) == 3


def test_other_runs_are_none_of_its_business(went_on):
    assert went_on(FIXED, {150: FILES}, FIXED.replace("1e-3", "2e-3")) == ([], {})


def test_a_run_on_other_data_is_none_of_its_business(tmp_path):
    """What was prepared anew is at the same place, so the settings are the same."""
    data, older = tmp_path / "data", tmp_path / "older" / "seed1"
    data.mkdir()
    (data / "dict.de.txt").write_text("Hund 1\n")
    settings = (f"data {data}", "train --lr 1")
    run = Run("model", older, settings, ())
    older.mkdir(parents=True)
    prepared_data.keep(run)
    (older / "settings").write_text("".join(f"{line}\n" for line in settings))
    newer = replace(run, folder=tmp_path / "newer" / "seed1")

    (data / "dict.de.txt").write_text("Haus 1\n")
    adopt(newer, print)
    assert older.exists() and not newer.folder.exists()
    (data / "dict.de.txt").write_text("Hund 1\n")
    adopt(newer, print)
    assert newer.folder.exists() and not older.exists()


@pytest.mark.parametrize(
    ("precision", "adopted"),
    [
        ("--fp16", True),
        ("--cpu", True),
        ("fp32", False),
        ("--bf16", False),
        ("--bf16 --cpu", False),
    ],
)
def test_a_run_that_lacks_its_precision_is_of_the_former_one(tmp_path, precision, adopted):
    older = tmp_path / "older" / "seed1"
    older.mkdir(parents=True)
    (older / "settings").write_text("train --lr 1\n")
    settings = ("train --lr 1", "score bleu", f"precision {precision}")
    run = Run("model", tmp_path / "model" / "seed1", settings, ())
    adopt(run, print)
    assert run.folder.exists() == adopted


def test_of_two_recipes_one_takes_a_run_over(tmp_path):
    """Here the other one is first, just when this one tells of it."""
    older = tmp_path / "older" / "seed1"
    older.mkdir(parents=True)
    (older / "settings").write_text("train --lr 1\n")
    run = Run("model", tmp_path / "model" / "seed1", ("train --lr 1", "score bleu"), ())

    def take_over(line):
        run.folder.parent.mkdir()
        older.rename(run.folder)

    adopt(run, take_over)
    assert (run.folder / "settings").exists()


def test_updates_of_another_size_are_another_run(tmp_path, runs_of):
    """Those of three GPUs, for one, which cannot share them evenly."""

    def run(gpus, updates):
        flags = (
            "--rows",
            "DMAN (released)",
            "--out",
            tmp_path,
            "--gpus",
            gpus,
            "--max-update",
            updates,
        )
        return runs_of("dman/iwslt14", *flags)[0]

    earlier, said = run(1, 50), []
    earlier.folder.mkdir(parents=True)
    (earlier.folder / "settings").write_text("".join(f"{line}\n" for line in earlier.settings))
    adopt(run(3, 50), said.append)
    go_on(run(3, 90), said.append, None)
    assert earlier.folder.exists() and not said
