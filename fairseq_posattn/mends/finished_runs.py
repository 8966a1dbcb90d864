"""A finished run that is started again: fairseq trains one update more before it notices."""

import logging

from fairseq import checkpoint_utils

from fairseq_posattn.mends.patching import patch

logger = logging.getLogger(__name__)


def apply():
    patch(checkpoint_utils, "load_checkpoint", _leave_finished_alone)


def _leave_finished_alone(load_checkpoint):
    """fairseq compares the updates with --max-update only after it has made another one."""

    def load_and_stop_if_finished(cfg, trainer, **kwargs):
        loaded = load_checkpoint(cfg, trainer, **kwargs)
        limits = trainer.cfg.optimization
        if limits.max_update and trainer.get_num_updates() >= limits.max_update:
            logger.info(
                f"nothing left to train: the checkpoint has {trainer.get_num_updates()} updates "
                f"and --max-update is {limits.max_update}"
            )
            limits.max_epoch = -1  # no epoch is left either
        return loaded

    return load_and_stop_if_finished
