"""The log of fairseq's commands, warnings, and Weights & Biases."""

import logging
import os
import sys
import warnings
from pathlib import Path

from fairseq.logging import progress_bar

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.patching import around, when_applied


@when_applied
def set_up_log():
    """Set up the log of a command, if one of fairseq's models has done it.

    A model of fairseq-fixed 0.12.3.1 sets up the log during its import, before the command can:
    fairseq-generate, -interactive, -validate, -preprocess and -eval-lm then log to standard error,
    without the time, and at level DEBUG of every library.
    """
    if _is_command() and _is_log_of_model():
        logging.basicConfig(
            format="%(asctime)s | %(levelname)s | %(name)s | %(message)s",
            datefmt="%Y-%m-%d %H:%M:%S",
            level=os.environ.get("LOGLEVEL", "INFO").upper(),
            stream=sys.stdout,
            force=True,
        )


def _is_command():
    program = Path(sys.argv[0] if sys.argv else "")
    return program.name.startswith("fairseq-") or program.parent.name == "fairseq_cli"


def _is_log_of_model():
    """Return whether the log is set up as by ``logging.basicConfig(level=logging.DEBUG)``."""
    root = logging.getLogger()
    forms = [getattr(handler.formatter, "_fmt", None) for handler in root.handlers]
    return root.level == logging.DEBUG and forms == [logging.BASIC_FORMAT]


# Warnings about fairseq's use of Hydra and PyTorch, about 30 lines in each command. Filters of
# ``python -W`` and ``PYTHONWARNINGS`` precede these.
STALE = (
    {"category": UserWarning, "module": r"hydra\."},
    {"category": UserWarning, "message": r"\s*'\S+' is validated against ConfigStore schema"},
    {"category": FutureWarning, "module": r"fairseq\."},
    {"category": UserWarning, "message": r"'pin_memory' argument is set as true"},
)


@when_applied
def ignore_stale_warnings():
    """Ignore warnings that users cannot act on."""
    for warning in STALE:
        warnings.filterwarnings("ignore", **warning, append=True)


@around(progress_bar.WandBProgressBarWrapper, "__init__")
def start_run_once(init, self, wrapped_bar, wandb_project, run_name=None):
    """Start one run of Weights & Biases in a training.

    fairseq starts a run for each progress bar. wandb 0.31 then returns the existing run, but warns
    and leaves the empty folder of another one.
    """
    wandb = progress_bar.wandb
    if wandb is None:
        init(self, wrapped_bar, wandb_project, run_name=run_name)
        return
    self.wrapped_bar = wrapped_bar
    if wandb.run is None:
        try:
            wandb.init(project=wandb_project, name=run_name)
        except wandb.Error as error:
            raise UsageError(
                f"--wandb-project {wandb_project}: Weights & Biases does not start a run "
                f"({in_one_line(error)}); WANDB_MODE=offline needs no login and no network"
            ) from error


@around(progress_bar.WandBProgressBarWrapper, "update_config")
def allow_changed_settings(update_config, self, config):
    """Allow changed settings in a resumed run (``WANDB_RESUME``), which fairseq ends by."""
    if progress_bar.wandb is not None:
        progress_bar.wandb.config.update(config, allow_val_change=True)
    self.wrapped_bar.update_config(config)
