"""Weights & Biases: with what is installed, or with a stand-in for what fairseq calls of it."""

import inspect
from types import SimpleNamespace

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.plugin import register

register()

from fairseq.logging import progress_bar  # noqa: E402

Bar = progress_bar.WandBProgressBarWrapper


class Config(dict):
    """Values that change only where that is allowed, as wandb has it."""

    def update(self, values, allow_val_change=False):
        for name, value in values.items():
            if self.get(name, value) != value and not allow_val_change:
                raise ValueError(name)
        super().update(values)


class StandIn:
    class Error(Exception):
        pass

    def __init__(self):
        self.run, self.config, self.begun, self.logged = None, Config(), [], []

    def init(self, **settings):
        self.begun.append(settings)
        self.run = self

    def log(self, numbers, step):
        self.logged.append((step, numbers))


@pytest.fixture
def wandb(monkeypatch):
    monkeypatch.setattr(progress_bar, "wandb", StandIn())
    return progress_bar.wandb


@pytest.fixture
def inner():
    return SimpleNamespace(
        log=lambda *args, **kwargs: None, print=lambda *args, **kwargs: None, update_config=list
    )


def test_fairseq_begins_a_run_with_each_bar(wandb, inner):
    for _ in range(2):
        inspect.unwrap(Bar.__init__)(SimpleNamespace(), inner, "project", run_name="name")
    assert [settings["project"] for settings in wandb.begun] == ["project", "project"]


def test_a_training_is_one_run(wandb, inner):
    bars = [Bar(inner, "project", run_name="name") for _ in range(3)]
    assert wandb.begun == [{"project": "project", "name": "name"}]
    for step, bar in enumerate(bars, 1):
        bar.log({"loss": 2.0, "num_updates": step}, tag="train_inner", step=step)
    assert wandb.logged == [(step, {"train_inner/loss": 2.0}) for step in (1, 2, 3)]


def test_settings_may_change_when_a_run_is_resumed(wandb, inner):
    bar = Bar(inner, "project")
    bar.update_config({"max_update": 10})
    with pytest.raises(ValueError):
        inspect.unwrap(Bar.update_config)(bar, {"max_update": 20})
    bar.update_config({"max_update": 20})
    assert wandb.config == {"max_update": 20}


def test_a_run_that_cannot_begin_is_told_in_a_line(wandb, inner, monkeypatch):
    def init(**settings):
        raise wandb.Error("No API key configured.")

    monkeypatch.setattr(wandb, "init", init)
    with pytest.raises(UsageError, match="--wandb-project own: .* No API key .*WANDB_MODE=offline"):
        Bar(inner, "own")


def test_without_the_package_fairseq_says_so(monkeypatch, inner, caplog):
    monkeypatch.setattr(progress_bar, "wandb", None)
    bar = Bar(inner, "project")
    assert "pip install wandb" in caplog.text
    bar.update_config({"max_update": 10})
    bar.log({"loss": 2.0}, tag="valid", step=1)


def test_the_package_itself(monkeypatch, inner, tmp_path):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setattr(progress_bar, "wandb", wandb)
    for name, value in (("MODE", "offline"), ("DIR", str(tmp_path)), ("SILENT", "true")):
        monkeypatch.setenv(f"WANDB_{name}", value)
    try:
        for epoch in (1, 2):
            bar = Bar(inner, "project", run_name="name")
            bar.update_config({"max_update": epoch})
            bar.log({"loss": 2.0}, tag="train_inner", step=epoch)
        assert wandb.run.name == "name" and wandb.config["max_update"] == 2
        assert wandb.run.summary["train_inner/loss"] == 2.0
    finally:
        wandb.finish()
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 1
