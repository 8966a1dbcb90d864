"""Checkpoints of an older version give the same outputs and can be trained further.

``tests/fixtures/make_checkpoints.py`` made them.
"""

import runpy
import shutil
from pathlib import Path

import forked_commands
import pytest

from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.inference import prediction

FIXTURES = Path(__file__).parents[1] / "fixtures"
MAKE = runpy.run_path(str(FIXTURES / "make_checkpoints.py"), run_name="make_checkpoints")


def translations(path, user_dir):
    options = ["--path", path, "--user-dir", user_dir, "--cpu", "--batch-size", "8"]
    data = FIXTURES / "translation" / "data"
    return MAKE["hypotheses"](forked_commands.output_of("generate", data, *options))


def labels(path, data):
    sentences = (FIXTURES / "classification" / "sentences.txt").read_text().splitlines()
    predictions = prediction.load(path, data, device="cpu")(sentences)
    return [predicted.label for predicted in predictions]


def check_outputs(name, path, user_dir):
    folder = FIXTURES / name
    if name == "translation":
        expected = (folder / "translations.txt").read_text()
        assert translations(path, user_dir) == expected
    else:
        assert labels(path, folder / "data") == (folder / "labels.txt").read_text().split()


@pytest.mark.parametrize("name", ["translation", "classification"])
def test_outputs_are_unchanged(name, user_dir):
    check_outputs(name, FIXTURES / name / "checkpoint.pt", user_dir)


@pytest.mark.parametrize(
    "name, flags, epoch, updates, started",
    [
        ("translation", "TRANSLATION", 55, 600, "--restore-file"),
        ("classification", "CLASSIFICATION", 38, 300, "--save-dir"),
    ],
)
def test_training_continues(user_dir, tmp_path, name, flags, epoch, updates, started):
    """Training resumes optimizer and position in the data; small steps keep the outputs."""
    folder = FIXTURES / name
    path, save_dir = folder / "checkpoint.pt", tmp_path / "saved"
    options = ["--save-dir", save_dir, "--max-update", updates + 9, "--lr", "1e-5"]
    if started == "--restore-file":
        options += ["--restore-file", path]
    else:
        save_dir.mkdir()
        shutil.copy(path, save_dir / "checkpoint_last.pt")
    arguments = [folder / "data", "--user-dir", user_dir, *MAKE[flags], *options]
    log = forked_commands.output_of("train", *arguments)
    assert f"(epoch {epoch} @ {updates} updates)" in log

    old, new = read_checkpoint(path), read_checkpoint(save_dir / "checkpoint_last.pt")
    assert new["optimizer_history"][-1]["num_updates"] == updates + 9
    assert new["last_optimizer_state"]["state"][0]["step"] == updates + 9
    assert new["extra_state"]["train_iterator"]["epoch"] == epoch + 1
    changes = [(new["model"][key] - weight).abs().max() for key, weight in old["model"].items()]
    assert 0 < max(changes) < 1e-3
    check_outputs(name, save_dir / "checkpoint_last.pt", user_dir)
