"""A checkpoint whose training has diverged is told from one that can be used."""

import inspect
from pathlib import Path

import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.training.plugin import register

register()

from fairseq import checkpoint_utils  # noqa: E402
from fairseq.trainer import Trainer  # noqa: E402

FIXTURE = Path(__file__).parents[1] / "fixtures" / "classification"


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_weights_that_are_no_numbers_are_refused(value, tmp_path):
    path = str(tmp_path / "diverged.pt")
    state = read_checkpoint(FIXTURE / "checkpoint.pt")
    name = list(state["model"])[-1]
    state["model"][name].flatten()[-1] = float(value)
    torch.save(state, path)
    overrides = {"data": str(FIXTURE / "data")}
    load = checkpoint_utils.load_model_ensemble_and_task
    with pytest.raises(UsageError, match=f"^{path}: the weight {name} is not finite"):
        load([path], arg_overrides=overrides)
    (model,), *_ = inspect.unwrap(load)([path], arg_overrides=overrides)  # fairseq's own
    assert not all(weight.isfinite().all() for weight in model.parameters())


@pytest.mark.parametrize("kind", [torch.complex64, torch.int32, torch.bool])
def test_weights_of_other_types_are_refused(kind, tmp_path):
    path = str(tmp_path / "other.pt")
    state = read_checkpoint(FIXTURE / "checkpoint.pt")
    name = list(state["model"])[-1]
    state["model"][name] = state["model"][name].to(kind)
    torch.save(state, path)
    name_of_kind = str(kind).removeprefix("torch.")
    with pytest.raises(UsageError, match=f"^{path}: the weight {name} is of type {name_of_kind}, "):
        checkpoint_utils.load_model_ensemble_and_task(
            [path], arg_overrides={"data": str(FIXTURE / "data")}
        )


def test_training_goes_on_from_no_weights_of_other_types(tmp_path):
    path = str(tmp_path / "other.pt")
    state = read_checkpoint(FIXTURE / "checkpoint.pt")
    name = list(state["model"])[-1]
    state["model"][name] = state["model"][name].int()
    torch.save(state, path)
    (model,), cfg, task = checkpoint_utils.load_model_ensemble_and_task(
        [str(FIXTURE / "checkpoint.pt")], arg_overrides={"data": str(FIXTURE / "data")}
    )
    cfg.common.cpu = True
    trainer = Trainer(cfg, task, model, task.build_criterion(cfg.criterion))
    with pytest.raises(UsageError, match=f"^{path}: the weight {name} is of type int32, "):
        trainer.load_checkpoint(path)
