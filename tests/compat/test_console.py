"""The log of fairseq's commands, and Weights & Biases."""

import inspect
import logging
import subprocess
import sys
import warnings
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.logging import progress_bar
from fairseq_cli import generate, validate
from hydra.errors import ConfigCompositionException

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
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.disable(disabled)


@pytest.mark.parametrize(
    "program, settings, stays",
    [
        ("/usr/lib/fairseq_cli/generate.py", {"level": logging.DEBUG}, False),
        ("fairseq-generate", {"level": logging.INFO}, True),
        ("fairseq-generate", {"level": logging.DEBUG, "format": "%(message)s"}, True),
        ("translate.py", {"level": logging.DEBUG}, True),
    ],
)
def test_only_the_log_set_up_by_a_model_is_replaced(program, settings, stays, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program])
    with bare_root() as root:
        logging.basicConfig(**settings)
        before = root.handlers[:]
        console.set_up_log()
        assert (root.handlers == before) == (root.level == settings["level"]) == stays


def test_a_quiet_import_sets_nothing_up():
    with bare_root() as root:
        with quietly():
            logging.basicConfig(level=logging.DEBUG)
        assert root.handlers == [] and root.level == logging.WARNING


PROGRAM = """
import logging, sys
sys.argv = ["fairseq-interactive"]
import fairseq_cli.interactive
logger = logging.getLogger("fairseq_cli.interactive")
logger.debug("by itself")
import fairseq_posattn
logger.debug("not to be logged")
logger.info("with the plugin")
"""


@pytest.mark.slow
def test_a_command_logs_to_standard_output():
    finished = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
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


@pytest.mark.parametrize("hides", [False, True])
def test_the_line_of_all_settings_is_left_to_the_log_file(capsys, hides):
    arguments = ["data", "--path", "x.pt", "--task", "translation", "--cpu"]
    args, incomplete = (
        options.parse_args_and_arch(options.get_generation_parser(), [*arguments, *more])
        for more in ((), ("--tokenizer", "moses"))
    )
    with bare_root() as root:
        logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
        if hides:
            console.hide_settings()
        with pytest.raises(FileNotFoundError, match="'data'"):
            generate.main(args)  # logs them first
        with pytest.raises(ConfigCompositionException):  # after a line of all settings
            convert_namespace_to_omegaconf(incomplete)
        root.info(torch.nn.Embedding(2, 3))  # as fairseq-train prints the model
    *settings, model = capsys.readouterr().out.splitlines()
    assert model == "Embedding(2, 3)"
    assert ("'common_eval'" in "".join(settings)) != hides
    assert ("Error when composing" in "".join(settings)) != hides


def test_validation_leaves_its_settings_to_the_log_file(capsys):
    with bare_root() as root:
        validate.reset_logging()
        root.info({"common_eval": None})
        root.info("loss 1")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith("| loss 1")


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
def explained(monkeypatch, capsys):
    """Return ``explained("train", "--arch", ...)``: the flags that a command's help explains."""

    def explained(command, *words, parse=options.parse_args_and_arch):
        monkeypatch.setattr(sys, "argv", [f"fairseq-{command}", *words, "--help"])
        with pytest.raises(SystemExit) as stopped:
            parse(COMMANDS[command]())
        assert stopped.value.code == 0
        first = (line.split()[:1] for line in capsys.readouterr().out.splitlines())
        return {word for words in first for word in words if word[:2] == "--"}

    return explained


OWN = {"mpsan_classifier": "--mpsan-masks", "posattn_classifier": "--pooling-queries"}
OWN |= {"posattn_recommender": "--pooling-dim", "posattn_tagger": "--predicate-embed-dim"}


@pytest.mark.parametrize("arch", ["mpsan_classifier", *ARCHITECTURES])
def test_help_has_the_flags_of_the_architecture(explained, arch):
    flag = OWN.get(arch, "--encoder-sublayers")
    assert flag in explained("train", "--arch", arch)
    fairseqs = inspect.unwrap(options.parse_args_and_arch)
    assert flag not in explained("train", "--arch", arch, parse=fairseqs)


def test_help_has_the_defaults_of_the_architecture(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fairseq-train", "--arch", "dman_iwslt_de_en", "--help"])
    with pytest.raises(SystemExit):
        options.parse_args_and_arch(options.get_training_parser())
    text = " ".join(capsys.readouterr().out.split())
    assert "embedding dimension for FFN (default: 512) --encoder-layers" in text
    assert "the last must be ffn (default: dman,san,ffn) --start" in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_the_flags_of_task_and_criterion(explained, command):
    words = ["--task", "sentence_pair_prediction", "--criterion", "sentence_classification"]
    flags = explained(command, *words)
    assert {"--num-classes", "--l2", "--max-positions"} <= flags and "--source-lang" not in flags


def test_validation_without_predictions_warns(tmp_path, caplog):
    options = SimpleNamespace(results_path=str(tmp_path / "results"), path="checkpoint.pt")
    console.write_predictions(lambda cfg: None, SimpleNamespace(common_eval=options))
    assert "only criterions of sentences and pairs write predictions; use" in caplog.text
