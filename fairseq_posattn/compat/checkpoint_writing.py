"""Checkpoints that are whole or not there, also where the disk is full or the run is killed.

fairseq 0.12 tries three times to write one, each time on from where it broke off, leaves the half
of it behind and ends in a traceback; a copy it writes straight into the place of the one before.
"""

import contextlib
import os

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.good import good_ones_beside
from fairseq_posattn.compat.patching import around


@around(checkpoint_utils, "torch_persistent_save")
def _save_whole(torch_persistent_save, state, path, async_write=False):
    if async_write or not PathManager.supports_rename(path):
        return torch_persistent_save(state, path, async_write=async_write)
    with _part_of(path) as part, open(part, "wb") as file:
        torch.save(state, file)


@around(PathManager, "copy")
def _copy_whole(copy, src_path, dst_path, overwrite=False):
    if not PathManager.supports_rename(dst_path):
        return copy(src_path, dst_path, overwrite=overwrite)
    with _part_of(dst_path) as part:
        return copy(src_path, part, overwrite=True)


@contextlib.contextmanager
def _part_of(path):
    """Another name to write under; what is there gets ``path`` for its name at the end.

    Raises:
        UsageError: it cannot be written.
    """
    part = f"{path}.tmp"
    try:
        yield part
        PathManager.rename(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(part)
        cause = _of_the_system(error)
        if cause is None:
            raise
        good = good_ones_beside(part)  # what had the name has it still
        left = f"the last good checkpoint is {good[0]}" if good else "there is no good checkpoint"
        raise UsageError(f"{path} cannot be written: {cause.strerror}; {left}") from error


def _of_the_system(error):
    """The system's error from which PyTorch has made its own."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error
