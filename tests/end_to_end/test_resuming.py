"""Training that is stopped or killed and resumes: it ends as an uninterrupted run.

Weights, optimizer, schedule, position in the data and best loss are bitwise equal.
"""

import functools
import os
import random
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import forked_commands
import pytest
from kill_and_resume import Training, differences, end_of

KILLS = int(os.environ.get("POSATTN_KILLS", 2))
UNTIL = ("--max-update", str(2 * KILLS + 10))  # a kill undoes an update at the most
PLATEAU = ("--lr-scheduler", "reduce_lr_on_plateau", "--lr-shrink", "0.5", "--lr-threshold", "0.5")
PLATEAU += ("--warmup-updates", "0")
ONLY_AT_THE_END = ("--save-interval-updates", "0")  # each save validates
FP16 = ("--fp16", "--fp16-no-flatten-grads", "--fp16-init-scale", "4")  # what a CPU can do
MEMORY = "memory-efficient-bf16"
EMA = ("--store-ema", "--ema-decay", "0.9", "--ema-update-freq", "3")


def in_parts(training, save_dir, *updates):
    """Train to each number of updates in a start of its own; return the last log."""
    for number in updates:
        flags = (*training.flags, "--max-update", str(number))
        log = replace(training, flags=flags).finish(save_dir)
    return log


OF_PLATEAU = ("load_state_dict_of_ReduceLROnPlateauLRSchedule", "step_with_loss_only")
OF_PLATEAU += ("finish_saved_epoch",)
OF_PRECISION = ("load_state_dict_of_FP16OptimizerMixin",)
# Patches, and steps of them, that a resumed training needs, its flags, and where it is stopped: at
# the end or in the middle of an epoch.
CASES = {
    "batches of a later epoch": (("note_epoch_of_batches",), (), (13, 26)),
    "plateau at the end of an epoch": (OF_PLATEAU, PLATEAU, (22, 26)),
    "plateau between two epochs": (OF_PLATEAU, (*PLATEAU, "--lr-patience", "1"), (25, 36)),
    "average of weights": (("load_ema_counter",), EMA, (4, 7)),
    "bf16": (OF_PRECISION, ("--bf16",), (3, 5)),
}


@pytest.fixture(scope="module", params=CASES, ids=lambda name: name.replace(" ", "_"))
def case(request, tmp_path_factory):
    """Return one of the cases, and an uninterrupted run of it."""
    patches, flags, updates = CASES[request.param]
    folder = tmp_path_factory.mktemp("case")
    training, alone = Training(folder, flags=(*flags, *ONLY_AT_THE_END)), folder / "alone"
    in_parts(training, alone, updates[-1])
    return SimpleNamespace(patches=patches, training=training, updates=updates, alone=alone)


def test_a_stopped_training_resumes_exactly(case, tmp_path):
    in_parts(case.training, tmp_path, *case.updates)
    assert differences(tmp_path, case.alone) == []


@pytest.mark.nightly
def test_resuming_needs_the_patches(case, tmp_path):
    """Without the patches the comparison finds differences."""
    without = functools.partial(forked_commands.leave_out, *case.patches)
    in_parts(replace(case.training, before=without), tmp_path, *case.updates)
    paths = differences(tmp_path, case.alone)
    assert [path for path in paths if path.startswith(("['model']", "['ema']"))]


@pytest.mark.parametrize(
    "training",
    [
        Training(Path(), "classification", (*PLATEAU, *FP16, "--patience", "30")),
        Training(Path(), flags=("--num-workers=2",)),
        Training(Path(), processes=2, flags=(*EMA, "--bf16")),
        pytest.param(Training(Path(), flags=(f"--{MEMORY}",)), marks=pytest.mark.nightly),
    ],
    ids=["fp16 classifier", "fp32 workers", "bf16 two processes", MEMORY],
)
def test_a_training_killed_at_random_moments_resumes_exactly(training, tmp_path):
    """The moments are two, or ``POSATTN_KILLS``.

    They are after an update, while a checkpoint is written or copied, before and after it is
    renamed, and before a checkpoint is removed.
    """
    training = replace(training, folder=tmp_path, flags=(*training.flags, *UNTIL))
    training.finish(tmp_path / "alone")
    training.kill_at_random(tmp_path / "killed", KILLS, random.Random(3))
    training.finish(tmp_path / "killed")
    assert differences(tmp_path / "killed", tmp_path / "alone") == []


def test_a_finished_run_is_unchanged(tmp_path):
    training = Training(tmp_path)
    in_parts(training, tmp_path / "saved", 3)
    last = tmp_path / "saved" / "checkpoint_last.pt"
    content = last.read_bytes()
    assert "nothing left to train: the checkpoint has 3" in in_parts(training, last.parent, 3)
    assert last.read_bytes() == content
    without = functools.partial(forked_commands.leave_out, "leave_finished_run")
    in_parts(Training(tmp_path, before=without), last.parent, 3)  # fairseq trains on
    assert last.read_bytes() != content


def test_epochs_between_two_saves_end_with_a_save(tmp_path):
    flags = ("--save-interval", "3", "--validate-interval", "3", "--save-interval-updates", "0")
    training = Training(tmp_path, "classification", (*flags, "--max-epoch", "2"))
    log = training.finish(tmp_path / "saved")
    assert "end of epoch 2" in log and log.count("valid on 'valid' subset") == 1
    assert end_of(tmp_path / "saved")["train_iterator"]["epoch"] == 3
    log = training.finish(tmp_path / "saved")
    assert "nothing left to train: the checkpoint has 2 epochs and --max-epoch is 2" in log


def test_patience_counts_over_stops(tmp_path):
    """The learning rate is 0, so only the first validation improves."""
    flags, saved = ("--patience", "2", "--lr", "0", "--stop-min-lr", "-1"), tmp_path / "saved"
    training = Training(tmp_path, "classification", flags)
    in_parts(training, saved, 2)
    log = in_parts(training, saved, 20)
    assert "early stop since valid performance hasn't improved for last 2 runs" in log
    assert end_of(saved)["schedule"]["num_updates"] == 3

    content = (saved / "checkpoint_last.pt").read_bytes()
    log = in_parts(training, saved, 20)
    assert "nothing left to train: the last 2 validations were no better" in log
    assert (saved / "checkpoint_last.pt").read_bytes() == content

    in_parts(replace(training, flags=(*flags, "--patience", "4")), saved, 20)
    assert end_of(saved)["schedule"]["num_updates"] == 5
