"""Saving of checkpoints: each is complete or absent, and belongs to one run.

After a signal the update is finished and ``checkpoint_last.pt`` written; Ctrl-C again ends at once.
"""

import contextlib
import errno
import fcntl
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import torch
import torch.multiprocessing
from fairseq import checkpoint_utils, utils
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.trainer import Trainer
from torch.multiprocessing.spawn import ProcessExitedException

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.matching import LAST
from fairseq_posattn.compat.patching import Function, around, training_loop
from fairseq_posattn.text.plain_text import copy_companions

logger = logging.getLogger(__name__)

BEST, SCORE, ANY_SCORE = r"checkpoint\.best_", r"(\d+\.?\d*)", r"(-?\d+\.?\d*)"
_best = SimpleNamespace(number=0, highest=False)  # of --keep-best-checkpoints
# Locks: closing a file, even another of the same name, would release its lock.
_held: dict[str, Any] = {}


@around(checkpoint_utils, "torch_persistent_save")
def save_whole(
    torch_persistent_save: Function, obj: Any, filename: str, async_write: bool = False
) -> Any:
    """Save a checkpoint under another name first; fairseq 0.12 leaves an incomplete file."""
    if async_write or not PathManager.supports_rename(filename):
        return torch_persistent_save(obj, filename, async_write=async_write)
    with _writing(filename) as part, open(part, "wb") as file:
        torch.save(obj, file)


@around(PathManager, "copy")
def copy_whole(copy: Function, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """Copy a checkpoint under another name first; fairseq overwrites the old file in place."""
    if not PathManager.supports_rename(dst_path):
        return copy(src_path, dst_path, overwrite=overwrite)
    with _writing(dst_path) as part:
        return copy(src_path, part, overwrite=True)


@contextlib.contextmanager
def _writing(path: str) -> Iterator[str]:
    """Yield a temporary name and rename it to ``path``; raise a UsageError for a full disk."""
    part = f"{path}.tmp"
    try:
        yield part
        PathManager.rename(part, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.remove(part)
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):  # PyTorch wraps it
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        reason = f"{cause.strerror}; earlier checkpoints are unchanged"
        raise UsageError(f"{path} cannot be written: {reason}") from error


@around(checkpoint_utils, "save_checkpoint")
def save_checkpoint(save: Function, cfg: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Note which checkpoints are best, for :func:`find_best`, and the update that is saved."""
    _best.number = getattr(cfg, "keep_best_checkpoints", 0)
    _best.highest = cfg.maximize_best_checkpoint_metric
    path = save(cfg, trainer, *args, **kwargs)
    trainer.updates_saved = trainer.get_num_updates()
    return path


@around(Trainer, "save_checkpoint")
def save_companions(save: Function, self: Any, *args: Any, **kwargs: Any) -> Any:
    """Copy dictionaries, manifest and codes beside the first checkpoint, for other machines."""
    path = save(self, *args, **kwargs)
    folder = self.cfg.checkpoint.save_dir
    if self.is_data_parallel_master and not hasattr(self, "companions"):
        self.companions = folder
        data = getattr(self.task.cfg, "data", None)
        try:
            if data and Path(folder).is_dir():
                copy_companions(Path(utils.split_paths(data)[0]), Path(folder))
        except (UsageError, OSError) as error:
            logger.warning(f"dictionaries and manifest are not copied to the checkpoint: {error}")
    return path


@around(checkpoint_utils, "checkpoint_paths")
def find_best(
    checkpoint_paths: Function,
    path: str,
    pattern: str = r"checkpoint(\d+)\.pt",
    keep_match: bool = False,
) -> list[str]:
    """Find best checkpoints with scores below 0, which fairseq 0.12 misses, and fill up to N."""
    if not pattern.startswith(BEST):
        return checkpoint_paths(path, pattern, keep_match)
    paths = checkpoint_paths(path, pattern.replace(SCORE, ANY_SCORE), keep_match)
    if len(paths) < _best.number:
        index, score = (len(paths), "-inf") if _best.highest else (0, "inf")
        paths.insert(index, os.path.join(path, pattern.replace(SCORE, score).replace("\\", "")))
    return paths


@around(Trainer, "__init__")
def lock_save_dir(init: Function, self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Lock ``--save-dir``: fairseq 0.12 lets two runs mix their checkpoints."""
    init(self, cfg, *args, **kwargs)
    checkpoint, distributed = self.cfg.checkpoint, self.cfg.distributed_training
    if distributed_utils.is_master(distributed) and not checkpoint.no_save:
        lock(checkpoint.save_dir)


def lock(folder: str) -> None:
    """Lock a folder without filelock, whose locks data loaders inherit; remove incomplete files."""
    folder = os.path.realpath(folder)
    if folder in _held:
        return
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, ".lock")  # the target of a link is not overwritten
    file = open(path, "a+", opener=lambda *how: os.open(how[0], how[1] | os.O_NOFOLLOW, 0o666))  # noqa: SIM115
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            return
        file.seek(0)
        owner = f"{file.read() or 'another process'}: wait for its end, or give another --save-dir"
        raise UsageError(f"--save-dir {folder} is in use by {owner}") from None
    file.truncate(0)
    file.write(f"process {os.getpid()} on {socket.gethostname()}")
    file.flush()
    _held[folder] = file
    for part in Path(folder).glob("*.pt.tmp"):
        part.unlink(missing_ok=True)


# --- SIGTERM and Ctrl-C ---------------------------------------------------------------------------

SIGNALS: dict[int, str] = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}
# The process that trains, whether it prints for all, and the received signal.
_state = SimpleNamespace(process=None, prints=True, received=0)


@around(training_loop, "train")
def listen(train: Function, cfg: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Receive signals while an epoch is trained; fairseq ends without saving."""
    if threading.current_thread() is not threading.main_thread():
        return train(cfg, trainer, *args, **kwargs)
    _state.process, _state.prints = os.getpid(), trainer.is_data_parallel_master
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as in the background of a shell
            signal.signal(number, _receive)
    try:
        return train(cfg, trainer, *args, **kwargs)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _receive(number: int, frame: FrameType | None) -> None:
    # Ctrl-C reaches processes that load data, too. The first process repeats SIGTERM to the others.
    if os.getpid() != _state.process or _state.received:
        return
    _state.received = number
    for other in (signal.SIGINT, signal.SIGCHLD):  # processes that load data may have ended, too
        signal.signal(other, signal.SIG_DFL)
    if _state.prints:
        _print(f"{SIGNALS[number]}: stopping after this update; Ctrl-C now stops at once")


@around(training_loop, "validate_and_save")
def validate_and_save(
    validate: Function,
    cfg: Any,
    trainer: Any,
    task: Any,
    epoch_itr: Any,
    valid_subsets: list[str],
    end_of_epoch: bool,
) -> tuple[Any, bool]:
    """Save after the last epoch, also if ``--save-interval`` does not divide it; obey signals."""
    if end_of_epoch and 0 < cfg.optimization.max_epoch <= epoch_itr.epoch:
        cfg.dataset.validate_interval = cfg.checkpoint.save_interval = 1
    losses, should_stop = validate(cfg, trainer, task, epoch_itr, valid_subsets, end_of_epoch)
    if not should_stop:
        stop_after_signal(cfg, trainer, epoch_itr, losses[0])
    return losses, should_stop


def stop_after_signal(cfg: Any, trainer: Any, epoch_itr: Any, loss: float | None) -> None:
    """Save and exit if a process has received a signal: here an update is complete."""
    number = _maximum(_state.received, trainer)
    if not number:
        return
    message = _save(cfg.checkpoint, trainer, epoch_itr, loss)
    _maximum(0, trainer)  # no process ends before everything is saved
    if _state.prints:
        updates = trainer.get_num_updates()
        _print(f"stopped by {SIGNALS[number]} after {updates} updates; {message}")
    _state.received = 0
    raise SystemExit(128 + number)


def _maximum(number: int, trainer: Any) -> int:
    """Return the largest of the numbers of all processes."""
    if trainer.data_parallel_world_size == 1:
        return number
    numbers = torch.tensor([number], device=trainer.device)
    distributed_utils.all_reduce(numbers, trainer.data_parallel_process_group, op="max")
    return int(numbers)


def _save(cfg: Any, trainer: Any, epoch_itr: Any, loss: float | None) -> str:
    """Write only ``checkpoint_last.pt``; return the message."""
    if cfg.no_save or cfg.no_last_checkpoints:
        return "nothing was saved, as the flags demand"
    path = os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
    if getattr(trainer, "updates_saved", None) != trainer.get_num_updates():
        extra_state = {"train_iterator": epoch_itr.state_dict(), "val_loss": loss}
        if hasattr(checkpoint_utils.save_checkpoint, "best"):
            extra_state["best"] = checkpoint_utils.save_checkpoint.best
        if hasattr(trainer.task, "get_checkpoint_dict"):
            extra_state.update(trainer.task.get_checkpoint_dict())
        trainer.consolidate_optimizer()
        if trainer.should_save_checkpoint_on_current_rank:
            trainer.save_checkpoint(path, extra_state)
        elif trainer.always_call_state_dict_during_save_checkpoint:
            trainer.state_dict()
    if cfg.restore_file == LAST:
        return f"the same command resumes from {path}"
    return f"resume with --restore-file {path}"


@contextlib.contextmanager
def end_in_one_line() -> Iterator[None]:
    """End in one line after Ctrl-C outside training."""
    try:
        yield
    except KeyboardInterrupt:
        _print("stopped by Ctrl-C")
        raise SystemExit(128 + signal.SIGINT) from None


@around(torch.multiprocessing, "spawn")
def pass_on_sigterm(spawn: Function, fn: Any, *args: Any, **kwargs: Any) -> Any:
    """Pass SIGTERM on to all processes, which fairseq leaves to be killed as they save.

    It starts a process for each GPU; on a machine without any it would end at once, with status 0.
    """
    if fn is not distributed_utils.distributed_main:
        return spawn(fn, *args, **kwargs)
    if kwargs["nprocs"] == 0:
        fix = "start examples/distributed/torchrun.sh instead"
        raise UsageError(f"--distributed-init-method: there is no GPU to train on; {fix}")
    received = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for child in multiprocessing.active_children():
            if child.pid is not None:
                os.kill(child.pid, number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        return spawn(fn, *args, **kwargs)
    except ProcessExitedException:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _print(message: str) -> None:
    """Print on standard error, if it is open, in a way that a signal handler may use."""
    with contextlib.suppress(OSError):  # the reader of a pipe may have been stopped, too
        os.write(2, f"fairseq_posattn: {message}\n".encode())
