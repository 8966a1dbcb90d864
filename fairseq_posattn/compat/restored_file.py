"""A checkpoint to train on from that is not there, or that is damaged.

fairseq 0.12 takes a missing ``--restore-file`` or ``--continue-once``, or a ``checkpoint_last.pt``
that is a folder or leads nowhere, for a wish to train from scratch.
"""

import os

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.good import good_ones_beside
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.compat.patching import around

LAST = "checkpoint_last.pt"  # the value of --restore-file if it is not given


@around(checkpoint_utils, "load_checkpoint")
def _refuse_missing(load_checkpoint, cfg, trainer, **kwargs):
    if not cfg.restore_file:  # none, as the user says
        return load_checkpoint(cfg, trainer, **kwargs)
    suffix = trainer.checkpoint_suffix
    flag, path = "--restore-file", cfg.restore_file.replace(".pt", f"{suffix}.pt")
    if cfg.restore_file == LAST:
        flag, path = "--save-dir", os.path.join(cfg.save_dir, path)
        continued = getattr(cfg, "continue_once", None)
        if continued and not PathManager.exists(path):
            flag, path = "--continue-once", continued
    if not PathManager.isfile(path) and (flag != "--save-dir" or os.path.lexists(path)):
        raise UsageError(f"{flag}: there is no file {path}{_hint(cfg.save_dir, path)}")
    return load_checkpoint(cfg, trainer, **kwargs)


def _hint(save_dir, path):
    inside = os.path.join(save_dir, os.path.basename(path))
    return f", but {inside} is there" if inside != path and os.path.isfile(inside) else ""


@around(Trainer, "load_checkpoint")
def _name_good_ones(load_checkpoint, self, filename, *args, **kwargs):
    try:
        return load_checkpoint(self, filename, *args, **kwargs)
    except UsageError as error:
        good = [] if _can_be_read(filename) else good_ones_beside(filename)
        if not good:
            raise
        raise UsageError(f"{error}; good ones beside it: {', '.join(good)}") from error


def _can_be_read(path):
    try:
        read_checkpoint(path)
    except UsageError:
        return False
    return True
