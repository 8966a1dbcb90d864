"""What a checkpoint is of no use without, copied beside it: dictionaries, manifest and codes.

A checkpoint of fairseq (0.12.2 and fairseq-fixed 0.12.3.1) names the folder of its data, which
another machine has not. The copies are made with a training's first checkpoint, so that one that
fails before leaves nothing; that they cannot be made stops no training.
"""

import logging
from pathlib import Path

from fairseq import checkpoint_utils, utils

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.patching import around
from fairseq_posattn.text.plain_text import copy_companions

logger = logging.getLogger(__name__)


@around(checkpoint_utils, "save_checkpoint")
def _copy_once(save_checkpoint, cfg, trainer, *args, **kwargs):
    path = save_checkpoint(cfg, trainer, *args, **kwargs)
    if path and trainer.is_data_parallel_master and not hasattr(trainer, "companions"):
        trainer.companions = cfg.save_dir
        _copy(trainer.task, cfg.save_dir)
    return path


def _copy(task, save_dir):
    data = getattr(task.cfg, "data", None)
    try:
        if data and Path(save_dir).is_dir():
            copy_companions(Path(utils.split_paths(data)[0]), Path(save_dir))
    except (UsageError, OSError) as error:
        logger.warning(f"dictionaries and manifest are not beside the checkpoint: {error}")
