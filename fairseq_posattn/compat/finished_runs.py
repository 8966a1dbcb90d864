"""A finished run that is started again: fairseq trains one update more before it notices."""

import logging

from fairseq import checkpoint_utils

from fairseq_posattn.compat.patching import around
from fairseq_posattn.compat.patience import validations_without_progress

logger = logging.getLogger(__name__)


@around(checkpoint_utils, "load_checkpoint")
def _leave_finished_alone(load_checkpoint, cfg, trainer, **kwargs):
    loaded = load_checkpoint(cfg, trainer, **kwargs)
    reason = _what_has_ended_it(trainer)
    if reason:
        logger.info(f"nothing left to train: {reason}")
        trainer.cfg.optimization.max_epoch = -1  # no epoch is left either
    return loaded


def _what_has_ended_it(trainer):
    limits, patience = trainer.cfg.optimization, trainer.cfg.checkpoint.patience
    updates, hours = trainer.get_num_updates(), trainer.cumulative_training_time() / 3600
    without_progress = validations_without_progress()
    if limits.max_update and updates >= limits.max_update:
        return f"the checkpoint has {updates} updates and --max-update is {limits.max_update}"
    if 0 < limits.stop_time_hours < hours:
        return f"it took {hours:.2f} hours and --stop-time-hours is {limits.stop_time_hours}"
    if 0 < patience <= without_progress:
        return (
            f"the last {without_progress} validations were no better than the one before, "
            f"and --patience is {patience}"
        )
    return None
