"""The plugin is registered, and fairseq's original functions can be restored."""

import inspect
import shutil
from pathlib import Path

import fairseq_cli.train  # noqa: F401, its loop is patched, too
import pytest
import torch
from fairseq import checkpoint_utils, tasks
from fairseq.trainer import Trainer

from fairseq_posattn.training.plugin import register

register()

FIXTURE = Path(__file__).parents[1] / "fixtures" / "classification"


@pytest.fixture
def restore(monkeypatch):
    """Return ``restore(owner, name)``, which puts back fairseq's function for this test."""

    def restore(owner, name):
        function = inspect.getattr_static(owner, name)
        kind = type(function) if isinstance(function, (classmethod, staticmethod)) else None
        original = inspect.unwrap(function.__func__ if kind else function)
        monkeypatch.setattr(owner, name, kind(original) if kind else original)

    return restore


@pytest.fixture(autouse=True)
def without_a_gpu(monkeypatch):
    """Make the device number None, as on the CPU; fairseq's flat weights ask for it."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)


@pytest.fixture
def data(tmp_path):
    return shutil.copytree(FIXTURE / "data", tmp_path / "data")


@pytest.fixture
def make_trainer(data):
    """Return ``make_trainer()``: a trainer of the fixture's model, with ``data``'s dictionaries."""

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
