"""The log of fairseq's commands, and Weights & Biases."""

import inspect
import logging
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from fairseq.logging import progress_bar

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import logs
from fairseq_posattn.compat.patching import quietly


@contextmanager
def bare_root():
    """The root of all loggers as it is where nobody has set it up, pytest neither."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)  # as commands of other tests have left it
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.disable(disabled)


@pytest.mark.parametrize(
    "program", ["/usr/bin/fairseq-generate", "/usr/lib/fairseq_cli/generate.py"]
)
def test_what_a_model_has_set_up_is_set_up_anew(program, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program])
    with bare_root():
        logging.basicConfig(level=logging.DEBUG)
        logs.set_up_log()
        logging.getLogger("hydra").debug("all that it does")
        logging.getLogger("fairseq_cli.generate").info("message")
    output = capsys.readouterr()
    assert output.out.endswith(" | INFO | fairseq_cli.generate | message\n")
    assert not output.err and "all that it does" not in output.out


@pytest.mark.parametrize(
    "settings", [{"level": logging.INFO}, {"level": logging.DEBUG, "format": "%(message)s"}]
)
def test_what_somebody_else_has_set_up_stays(settings, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairseq-generate"])
    with bare_root() as root:
        logging.basicConfig(**settings)
        before = root.handlers[:]
        logs.set_up_log()
        assert root.handlers == before and root.level == settings["level"]


@pytest.mark.parametrize("arguments", [["translate.py"], ["-c"], [""], []])
def test_a_program_of_ones_own_keeps_its_standard_output(arguments, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", arguments)
    with bare_root():
        logging.basicConfig(level=logging.DEBUG)
        logs.set_up_log()
        logging.getLogger("fairseq.tasks.translation").info("message")
    assert capsys.readouterr().out == ""


def test_a_quiet_import_sets_nothing_up():
    with bare_root() as root:
        with quietly():
            logging.basicConfig(level=logging.DEBUG)
        assert root.handlers == [] and root.level == logging.WARNING


@pytest.mark.slow
def test_fairseqs_own_command_with_and_without():
    program = """
import logging, sys
sys.argv = ["fairseq-interactive"]
import fairseq_cli.interactive
logger = logging.getLogger("fairseq_cli.interactive")
logger.debug("by itself")
import fairseq_posattn
logger.debug("not to be logged")
logger.info("with the plugin")
"""
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert "DEBUG:fairseq_cli.interactive:by itself" in finished.stderr
    assert "the plugin" not in finished.stderr and "not to be logged" not in finished.stderr
    assert finished.stdout.endswith(" | INFO | fairseq_cli.interactive | with the plugin\n")


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


def test_a_run_that_cannot_start_is_one_line(wandb, inner, monkeypatch):
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


def test_warnings_that_nobody_can_act_on_are_ignored():
    def warned(filters):
        with warnings.catch_warnings(record=True) as caught:
            warnings.resetwarnings()
            filters()
            warnings.warn_explicit("old", UserWarning, "x.py", 1, module="hydra.core.x")
            warnings.warn_explicit("old", FutureWarning, "x.py", 2, module="fairseq.trainer")
            warnings.warn_explicit("new", UserWarning, "x.py", 3, module="my_program")
        return [str(warning.message) for warning in caught]

    def always():
        warnings.simplefilter("always")
        logs.ignore_stale_warnings()

    assert warned(lambda: None) == ["old", "old", "new"]
    assert warned(logs.ignore_stale_warnings) == ["new"]
    assert warned(always) == ["old", "old", "new"]
