"""A checkpoint belongs to the dictionaries that its model was trained with."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils, tasks
from fairseq.data import Dictionary
from fairseq.trainer import Trainer

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import data as compat_data
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.inference import prediction

FIXTURE = Path(__file__).parents[1] / "fixtures" / "classification"


@pytest.fixture
def data(tmp_path):
    """The dictionaries of the fixture, to be changed."""
    for name in ("input0", "label"):
        (tmp_path / "data" / name).mkdir(parents=True)
        shutil.copy(FIXTURE / "data" / name / "dict.txt", tmp_path / "data" / name)
    return tmp_path / "data"


@pytest.fixture
def make_trainer(data):
    """``make_trainer()``: a trainer of the fixture's model, with the dictionaries of ``data``."""

    def make(**checkpoint_flags):
        path = str(FIXTURE / "checkpoint.pt")
        (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], arg_overrides={"data": str(FIXTURE / "data"), "cpu": True}
        )
        cfg.task.data = str(data)
        cfg.checkpoint.no_save = True  # or it would lock the folder where the tests are run
        for name, value in checkpoint_flags.items():
            cfg.checkpoint[name] = value
        task = tasks.setup_task(cfg.task)
        return Trainer(cfg, task, model, task.build_criterion(cfg.criterion))

    return make


@pytest.fixture
def checkpoint(make_trainer, tmp_path):
    """As training saves it today."""
    path = str(tmp_path / "checkpoint.pt")
    trainer = make_trainer()
    trainer.consolidate_optimizer()
    trainer.save_checkpoint(path, {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0}})
    assert set(read_checkpoint(path)["task_state"]["dictionaries"]) == {
        "source_dictionary",
        "target_dictionary",
        "label_dictionary",
    }
    return path


def permute(path):
    """The same symbols in another order."""
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[1], lines[0], *lines[2:]]) + "\n")


def test_other_dictionaries_of_fairseqs_older_tasks_are_refused():
    settings = SimpleNamespace(data="data-bin/pairs")
    task = SimpleNamespace(cfg=None, args=settings, source_dictionary=Dictionary())
    with pytest.raises(UsageError, match="^the dictionary of source words in data-bin/pairs "):
        compat_data.check(task, {"source_dictionary": "another"})


DICTIONARIES = [("input0", "source words"), ("label", "labels")]


@pytest.mark.parametrize(("name", "called"), DICTIONARIES)
def test_predicting_with_other_dictionaries_is_refused(name, called, data, checkpoint):
    texts = FIXTURE.joinpath("sentences.txt").read_text().splitlines()
    expected = FIXTURE.joinpath("labels.txt").read_text().split()
    found = prediction.load(checkpoint, str(data), device="cpu")(texts)
    assert [one.label for one in found] == expected
    permute(data / name / "dict.txt")
    message = f"^{checkpoint}: the dictionary of {called} in {data} differs"
    with pytest.raises(UsageError, match=message):
        prediction.load(checkpoint, str(data), device="cpu")


@pytest.mark.parametrize("name", ["input0", "label"])
def test_fairseq_accepts_other_dictionaries(name, data, checkpoint, restore):
    """As it does with checkpoints that know no fingerprints, which stay readable."""
    restore(tasks.FairseqTask, "load_state_dict")
    permute(data / name / "dict.txt")
    texts = FIXTURE.joinpath("sentences.txt").read_text().splitlines()
    expected = FIXTURE.joinpath("labels.txt").read_text().split()
    found = prediction.load(checkpoint, str(data), device="cpu")(texts)
    assert [one.label for one in found] != expected


def test_checkpoints_from_before_load(data):
    permute(data / "label" / "dict.txt")
    assert prediction.load(str(FIXTURE / "checkpoint.pt"), str(data), device="cpu")(["a b"])


@pytest.mark.parametrize(("name", "called"), DICTIONARIES)
def test_training_goes_on_with_the_same_dictionaries_only(
    name, called, data, checkpoint, make_trainer
):
    make_trainer().load_checkpoint(checkpoint, reset_optimizer=True)
    permute(data / name / "dict.txt")
    with pytest.raises(UsageError, match=f"^the dictionary of {called} in {data} differs"):
        make_trainer().load_checkpoint(checkpoint, reset_optimizer=True)


def test_finetuning_may_have_other_labels_but_no_other_words(data, checkpoint, make_trainer):
    permute(data / "label" / "dict.txt")
    finetuning = {"finetune_from_model": checkpoint}
    make_trainer(**finetuning).load_checkpoint(checkpoint, reset_optimizer=True)
    permute(data / "input0" / "dict.txt")
    with pytest.raises(UsageError, match="^the dictionary of source words"):
        make_trainer(**finetuning).load_checkpoint(checkpoint, reset_optimizer=True)


def test_what_tasks_keep_themselves_stays(data, checkpoint):
    state = read_checkpoint(checkpoint)
    state["task_state"]["own"] = 5
    torch.save(state, checkpoint)
    *_, task = checkpoint_utils.load_model_ensemble_and_task(
        [checkpoint], arg_overrides={"data": str(data)}
    )
    assert task.state_dict() == {"own": 5}
