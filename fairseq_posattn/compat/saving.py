"""Saving of checkpoints: each is complete or absent, and belongs to one run."""

import atexit
import contextlib
import errno
import fcntl
import logging
import os
import socket
from pathlib import Path
from types import SimpleNamespace

import torch
from fairseq import checkpoint_utils, utils
from fairseq.distributed.utils import is_master
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.folders import readable_checkpoints_beside
from fairseq_posattn.compat.patching import around
from fairseq_posattn.text.plain_text import copy_companions

logger = logging.getLogger(__name__)

# --- Complete files ------------------------------------------------------------------------------


@around(checkpoint_utils, "torch_persistent_save")
def save_whole(torch_persistent_save, state, path, async_write=False):
    """Save a checkpoint under another name first.

    fairseq 0.12 tries three times, each time appending to the incomplete file, leaves that behind
    and ends in a traceback.
    """
    if async_write or not PathManager.supports_rename(path):
        return torch_persistent_save(state, path, async_write=async_write)
    with _writing(path) as part, open(part, "wb") as file:
        torch.save(state, file)


@around(PathManager, "copy")
def copy_whole(copy, src_path, dst_path, overwrite=False):
    """Copy a checkpoint under another name first; fairseq overwrites the old one in place."""
    if not PathManager.supports_rename(dst_path):
        return copy(src_path, dst_path, overwrite=overwrite)
    with _writing(dst_path) as part:
        return copy(src_path, part, overwrite=True)


@contextlib.contextmanager
def _writing(path):
    """Yield a temporary name, and rename that file to ``path`` at the end.

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
        cause = _system_error(error)
        if cause is None:
            raise
        good = readable_checkpoints_beside(part)  # path has its old content
        left = f"the last good checkpoint is {good[0]}" if good else "there is no good checkpoint"
        raise UsageError(f"{path} cannot be written: {cause.strerror}; {left}") from error


def _system_error(error):
    """Return the system's error from which PyTorch made its error."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error


# --- --keep-best-checkpoints ---------------------------------------------------------------------

BEST, SCORE, ANY_SCORE = r"checkpoint\.best_", r"(\d+\.?\d*)", r"(-?\d+\.?\d*)"
_best = SimpleNamespace(number=0, highest=False)


@around(checkpoint_utils, "save_checkpoint")
def note_number_of_best(save_checkpoint, cfg, *args, **kwargs):
    """Note the settings for :func:`find_best`."""
    _best.number = getattr(cfg, "keep_best_checkpoints", 0)
    _best.highest = cfg.maximize_best_checkpoint_metric
    return save_checkpoint(cfg, *args, **kwargs)


@around(checkpoint_utils, "checkpoint_paths")
def find_best(checkpoint_paths, path, pattern=r"checkpoint(\d+)\.pt", keep_match=False):
    """Find all best checkpoints, and while there are fewer than N, a missing one as the worst.

    fairseq 0.12 saves none that is worse than the existing ones, even if they are fewer than N, and
    never removes those with scores below zero, such as Pearson's r.
    """
    if not pattern.startswith(BEST):
        return checkpoint_paths(path, pattern, keep_match)
    paths = checkpoint_paths(path, pattern.replace(SCORE, ANY_SCORE), keep_match)
    if len(paths) < _best.number:
        place, score = (len(paths), "-inf") if _best.highest else (0, "inf")
        paths.insert(place, os.path.join(path, pattern.replace(SCORE, score).replace("\\", "")))
    return paths


# --- --save-dir ----------------------------------------------------------------------------------

LOCK = ".lock"
_held = {}  # closing a file, even another of the same name, would release the lock


@around(Trainer, "__init__")
def lock_save_dir(init, self, cfg, *args, **kwargs):
    """Lock ``--save-dir``: fairseq 0.12 lets two runs mix their checkpoints."""
    init(self, cfg, *args, **kwargs)
    if is_master(self.cfg.distributed_training) and not self.cfg.checkpoint.no_save:
        lock(self.cfg.checkpoint.save_dir)


def lock(folder):
    """Lock a folder for this process, and remove incomplete checkpoints of a killed one.

    The lock ends with the process, and is not inherited by processes that load data. File systems
    without locks are not locked.

    Raises:
        UsageError: another process has locked it.
        OSError: the lock file is a link.
    """
    folder = os.path.realpath(folder)
    if folder in _held:
        return
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, LOCK)  # the target of a link is not overwritten
    file = open(path, "a+", opener=lambda *how: os.open(how[0], how[1] | os.O_NOFOLLOW, 0o666))  # noqa: SIM115
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            return
        file.seek(0)
        raise UsageError(
            f"--save-dir {folder} is in use by {file.read() or 'another process'}: wait for its "
            "end, or give another --save-dir"
        ) from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    _held[folder] = file
    for part in Path(folder).glob("*.pt.tmp"):
        part.unlink(missing_ok=True)


@around(checkpoint_utils, "verify_checkpoint_directory")
def leave_no_empty_folder(verify_checkpoint_directory, save_dir):
    """Remove a new ``--save-dir`` at the end if training fails before its first checkpoint."""
    if not os.path.exists(save_dir):
        atexit.register(_remove_if_empty, os.path.abspath(save_dir))
    verify_checkpoint_directory(save_dir)


def _remove_if_empty(folder):
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [LOCK]:
            os.remove(os.path.join(folder, LOCK))
        os.rmdir(folder)


@around(checkpoint_utils, "save_checkpoint")
def copy_data_files(save_checkpoint, cfg, trainer, *args, **kwargs):
    """Copy dictionaries, manifest and codes beside the first checkpoint of a training.

    fairseq saves only the name of the data's folder, which another machine does not have. A failed
    copy is logged and stops no training.
    """
    path = save_checkpoint(cfg, trainer, *args, **kwargs)
    if path and trainer.is_data_parallel_master and not hasattr(trainer, "companions"):
        trainer.companions = cfg.save_dir
        data = getattr(trainer.task.cfg, "data", None)
        try:
            if data and Path(cfg.save_dir).is_dir():
                copy_companions(Path(utils.split_paths(data)[0]), Path(cfg.save_dir))
        except (UsageError, OSError) as error:
            logger.warning(f"dictionaries and manifest are not copied to the checkpoint: {error}")
    return path
