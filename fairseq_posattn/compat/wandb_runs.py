"""``--wandb-project``: a training is one run in Weights & Biases.

fairseq (0.12.2 and fairseq-fixed 0.12.3.1) asks for a run again with each of its progress bars, for
each epoch and each validation. Today's wandb (0.31) then returns the run that there is, but
complains each time, and leaves the empty folder of another run. And where a run is resumed
(``WANDB_RESUME``) with another setting, such as a larger ``--max-update``, training fails, as wandb
wants to be told that settings may change. Without a login or a network it ends in a traceback.
"""

from fairseq.logging import progress_bar

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.patching import around


@around(progress_bar.WandBProgressBarWrapper, "__init__")
def _begin_once(init, self, wrapped_bar, wandb_project, run_name=None):
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
                f"--wandb-project {wandb_project}: Weights & Biases does not begin a run "
                f"({in_one_line(error)}); WANDB_MODE=offline needs no login and no network"
            ) from error


@around(progress_bar.WandBProgressBarWrapper, "update_config")
def _let_settings_change(update_config, self, config):
    if progress_bar.wandb is not None:
        progress_bar.wandb.config.update(config, allow_val_change=True)
    self.wrapped_bar.update_config(config)
