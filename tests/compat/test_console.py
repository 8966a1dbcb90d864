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
import torch
from fairseq import options
from fairseq.logging import progress_bar

from fairseq_posattn.compat import console
from fairseq_posattn.compat.patching import quietly
from fairseq_posattn.training.presets import ARCHITECTURES


@contextmanager
def bare_root():
    """Yield the root logger without handlers."""
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
def test_the_log_set_up_by_a_model_is_replaced(program, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program])
    with bare_root():
        logging.basicConfig(level=logging.DEBUG)
        console.set_up_log()
        logging.getLogger("hydra").debug("all that it does")
        logging.getLogger("fairseq_cli.generate").info("message")
    output = capsys.readouterr()
    assert output.out.endswith(" | INFO | fairseq_cli.generate | message\n")
    assert not output.err and "all that it does" not in output.out


@pytest.mark.parametrize(
    "program, settings",
    [
        ("fairseq-generate", {"level": logging.INFO}),
        ("fairseq-generate", {"level": logging.DEBUG, "format": "%(message)s"}),
        ("translate.py", {"level": logging.DEBUG}),
        ("", {"level": logging.DEBUG}),
    ],
)
def test_the_log_of_another_program_stays(program, settings, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program])
    with bare_root() as root:
        logging.basicConfig(**settings)
        before = root.handlers[:]
        console.set_up_log()
        assert root.handlers == before and root.level == settings["level"]


def test_a_quiet_import_sets_nothing_up():
    with bare_root() as root:
        with quietly():
            logging.basicConfig(level=logging.DEBUG)
        assert root.handlers == [] and root.level == logging.WARNING


@pytest.mark.slow
def test_a_command_logs_to_standard_output():
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


def test_settings_may_change_when_a_run_of_wandb_is_resumed(monkeypatch):
    class Config(dict):
        def update(self, values, allow_val_change=False):
            if not allow_val_change:
                raise ValueError
            super().update(values)

    monkeypatch.setattr(progress_bar, "wandb", SimpleNamespace(config=Config()))
    bar = SimpleNamespace(wrapped_bar=SimpleNamespace(update_config=list))
    update = progress_bar.WandBProgressBarWrapper.update_config
    with pytest.raises(ValueError):
        inspect.unwrap(update)(bar, {"max_update": 20})
    update(bar, {"max_update": 20})
    assert progress_bar.wandb.config == {"max_update": 20}


def test_the_line_of_all_settings_is_left_to_the_log_file(capsys):
    with bare_root() as root:
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
        console.hide_settings()
        root.info({"common": {"seed": 1}})
        root.info("message")
        root.info(torch.nn.Embedding(2, 3))  # as fairseq-train prints the model
    assert capsys.readouterr().out == "message\nEmbedding(2, 3)\n"


def test_stale_warnings_are_ignored():
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
        console.ignore_stale_warnings()

    assert warned(lambda: None) == ["old", "old", "new"]
    assert warned(console.ignore_stale_warnings) == ["new"]
    assert warned(always) == ["old", "old", "new"]


# --- --help ---------------------------------------------------------------------------------------

COMMANDS = {
    "train": options.get_training_parser,
    "generate": options.get_generation_parser,
    "interactive": options.get_interactive_generation_parser,
    "validate": options.get_validation_parser,
}


@pytest.fixture
def help_of(monkeypatch, capsys):
    """Return ``help_of("train", "--arch", ...)``: the help of a command."""

    def help_of(command, *words, parse=options.parse_args_and_arch):
        monkeypatch.setattr(sys, "argv", [f"fairseq-{command}", *words, "--help"])
        with pytest.raises(SystemExit) as stopped:
            parse(COMMANDS[command]())
        assert stopped.value.code == 0
        return capsys.readouterr().out

    return help_of


def test_fairseqs_help_ignores_the_architecture(help_of):
    fairseqs = inspect.unwrap(options.parse_args_and_arch)
    plain = help_of("train", parse=fairseqs)
    assert help_of("train", "--arch", "posattn_transformer", parse=fairseqs) == plain
    assert "posattn_transformer" not in plain and "--source-lang" not in plain


def explained(text):
    """Return the flags that a help explains."""
    return {word for line in text.splitlines() for word in line.split()[:1] if word[:2] == "--"}


@pytest.mark.parametrize("arch", ["mpsan_classifier", *ARCHITECTURES])
def test_help_has_the_flags_of_the_architecture(help_of, arch):
    own = {"mpsan_classifier": "--mpsan-masks", "posattn_classifier": "--pooling-queries"}
    own |= {"posattn_recommender": "--pooling-dim", "posattn_tagger": "--predicate-embed-dim"}
    flag = own.get(arch, "--encoder-sublayers")
    assert flag in explained(help_of("train", "--arch", arch))


def test_help_has_the_flags_of_task_and_criterion(help_of):
    words = ["--task", "sentence_pair_prediction", "--criterion", "sentence_classification"]
    for command in COMMANDS:
        found = explained(help_of(command, *words))
        assert {"--num-classes", "--l2", "--max-positions"} <= found, command
        assert "--source-lang" not in found


def test_a_wrong_name_is_reported(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "--arch", "dmann_iwslt_de_en", "--help"])
    with pytest.raises(SystemExit) as stopped:
        options.parse_args_and_arch(options.get_training_parser())
    assert stopped.value.code == 2
    assert "dman_iwslt_de_en" in capsys.readouterr().err
