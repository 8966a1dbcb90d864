"""The output of fairseq's commands: help, log, validation and predictions."""

import logging
import os
import sys
import warnings
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq.distributed import utils as distributed_utils
from fairseq.logging import progress_bar
from fairseq_cli import eval_lm, validate

from fairseq_posattn.common.errors import explained
from fairseq_posattn.common.files import write_text
from fairseq_posattn.compat.patching import Function, around, when_applied
from fairseq_posattn.compat.saving import end_in_one_line

logger = logging.getLogger(__name__)

# --- --help ---------------------------------------------------------------------------------------
# fairseq parses a command line twice and prints its help in the first pass, when it does not know
# the flags of the named model, task and criterion. Here the second pass prints it.

HELP = {"-h", "--help"}
EPILOG = (
    "--help explains the flags of the --arch, --task and --criterion named beside it. "
    "`posattn user-dir --architectures` lists those of fairseq_posattn."
)


def print_help_in_second_pass(
    parser: ArgumentParser, input_args: Sequence[str] | None = None
) -> None:
    """Let the first pass ignore ``--help``."""
    words = sys.argv[1:] if input_args is None else list(input_args)
    if HELP.intersection(words):
        parse, parser.epilog = parser.parse_known_args, EPILOG

        def first_pass(*_: Any) -> tuple[Any, list[str]]:
            del parser.parse_known_args
            result, rest = parse([word for word in words if word not in HELP])
            for name in ("arch", "task"):
                if getattr(result, name, "") is None:
                    delattr(result, name)  # without it there are no flags of it
            return result, rest

        vars(parser)["parse_known_args"] = first_pass


@when_applied
def set_up_log() -> None:
    """Set up the log of a command, if an imported model of fairseq-fixed has set level DEBUG."""
    program = Path(sys.argv[0] if sys.argv else "")
    is_command = program.name.startswith("fairseq-") or program.parent.name == "fairseq_cli"
    root = logging.getLogger()
    forms = [getattr(handler.formatter, "_fmt", None) for handler in root.handlers]
    if is_command and root.level == logging.DEBUG and forms == [logging.BASIC_FORMAT]:
        logging.basicConfig(
            format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
            level=os.environ.get("LOGLEVEL", "INFO").upper(),
            stream=sys.stdout,
            force=True,
        )


@when_applied
def hide_settings() -> None:
    """Leave the lines of all settings, some 5,000 characters, to ``--log-file``."""

    def is_short(record: logging.LogRecord) -> bool:
        if isinstance(record.msg, str):
            return not record.msg.startswith("Error when composing")  # an error follows
        return not isinstance(record.msg, Mapping)  # a model stays: recipes read its vectors

    for handler in logging.getLogger().handlers:
        handler.addFilter(is_short)


@around(validate, "reset_logging")
def reset_log(reset_logging: Function) -> None:
    """Hide settings in the new log of ``fairseq-validate``, too."""
    reset_logging()
    hide_settings()


# Warnings about fairseq's use of Hydra and PyTorch, about 30 lines in each command. Filters of
# ``python -W`` and ``PYTHONWARNINGS`` precede these.
STALE: tuple[dict[str, Any], ...] = (
    {"category": UserWarning, "module": r"hydra\."},
    {"category": UserWarning, "message": r"\s*'\S+' is validated against ConfigStore schema"},
    {"category": FutureWarning, "module": r"fairseq\."},
    {"category": UserWarning, "message": r"'pin_memory' argument is set as true"},
)


@when_applied
def ignore_stale_warnings() -> None:
    """Ignore warnings that users cannot act on."""
    for warning in STALE:
        warnings.filterwarnings("ignore", append=True, **warning)


@around(progress_bar.WandBProgressBarWrapper, "update_config")
def allow_changed_settings(update_config: Function, self: Any, config: Any) -> None:
    """Allow changed settings in a resumed run (``WANDB_RESUME``), which fairseq ends by."""
    if progress_bar.wandb is not None:
        progress_bar.wandb.config.update(config, allow_val_change=True)
    self.wrapped_bar.update_config(config)


@around(distributed_utils, "call_main")
def run_command(call_main: Function, cfg: Any, main: Any, *args: Any, **kwargs: Any) -> Any:
    """Run a command, ``fairseq-validate`` and ``fairseq-eval-lm`` in one process."""
    evaluate_in_one_process(cfg, main)
    with end_in_one_line():
        return call_main(cfg, main, *args, **kwargs)


def evaluate_in_one_process(cfg: Any, main: Any) -> None:
    """Let ``fairseq-validate`` and ``-eval-lm`` start one process, not one for each GPU.

    Several fail if one has fewer batches, or print the perplexity of the first one's batches.
    """
    settings = cfg.distributed_training
    if main in (validate.main, eval_lm.main) and settings.distributed_world_size > 1:
        logger.info(f"evaluating in one process instead of {settings.distributed_world_size}")
        settings.distributed_world_size = 1
        settings.distributed_init_method = None


# Lines by subset and number of the example; None if predictions are not written.
predictions: dict[str, dict[int, str]] | None = None


@around(validate, "main")
def write_predictions(main: Function, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Write ``predictions-SUBSET.txt`` to ``--results-path FOLDER``, which fairseq ignores."""
    global predictions
    folder = cfg.common_eval.results_path
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        predictions = {}
    try:
        reason = "cannot be validated with the criterion and the task of its settings ({})"
        with explained(f"{cfg.common_eval.path} {reason}"):  # fairseq names no file
            main(cfg, *args, **kwargs)
        for subset, lines in (predictions or {}).items():
            text = "".join(lines[number] for number in sorted(lines))
            write_text(Path(folder) / f"predictions-{subset}.txt", text)
        if predictions == {}:
            logger.warning(
                "--results-path: only criterions of sentences and pairs write predictions; use "
                "posattn predict, rank or translate"
            )
    finally:
        predictions = None
