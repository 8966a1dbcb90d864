"""SIGTERM and Ctrl-C save the training and end it in one line.

fairseq 0.12 ends at once, and everything since the last checkpoint is lost. Here the current update
is finished, with its validation if one is due, and ``checkpoint_last.pt`` is written, from which
the same command resumes. One of several processes needs to receive the signal. A second signal ends
the program at once.
"""

import multiprocessing
import os
import signal
import threading
from types import SimpleNamespace

import torch
import torch.multiprocessing
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer

from fairseq_posattn.compat.matching import LAST
from fairseq_posattn.compat.patching import around, training_loop, wrap

NAMES = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}

# The process that set the handlers, the previous handlers, whether this process prints for all,
# whether it is training, and the received signal.
_state = SimpleNamespace(process=None, before={}, prints=True, trains=False, received=0)


@around(Trainer, "__init__")
def listen(init, self, *args, **kwargs):
    """Set the handlers when a training starts in the main thread."""
    init(self, *args, **kwargs)
    loop, _state.prints = training_loop(), self.is_data_parallel_master
    if loop is not None and threading.current_thread() is threading.main_thread():
        wrap(loop, "train", _while_training)
        wrap(loop, "validate_and_save", _stop_after_signal)
        _set_handlers()


def _set_handlers():
    if _state.process == os.getpid():
        return
    _state.process = os.getpid()
    for number in NAMES:
        before = signal.getsignal(number)
        if before is not signal.SIG_IGN:  # as in the background of a shell
            _state.before[number] = before
            signal.signal(number, _receive)


def _receive(number, frame):
    if os.getpid() != _state.process:  # a process that loads data: Ctrl-C reaches it, too
        return
    if not _state.trains:
        _call_previous_handler(number, frame)
        return
    _state.received = number
    for second in _state.before:
        signal.signal(second, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # processes that load data may have ended, too
    if _state.prints:
        _print(f"{NAMES[number]}: stopping after this update; a second one stops at once")


def _call_previous_handler(number, frame):
    before = _state.before[number]
    if callable(before):
        before(number, frame)
    else:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


def _while_training(train, *args, **kwargs):
    _state.trains = True
    try:
        return train(*args, **kwargs)
    finally:
        _state.trains = False


@around(checkpoint_utils, "save_checkpoint")
def note_saved_updates(save_checkpoint, cfg, trainer, *args, **kwargs):
    """Note the number of updates in the last checkpoint."""
    path = save_checkpoint(cfg, trainer, *args, **kwargs)
    trainer.updates_saved = trainer.get_num_updates()
    return path


def _stop_after_signal(validate_and_save, cfg, trainer, task, epoch_itr, *args, **kwargs):
    """Stop here, where an update is complete."""
    losses, should_stop = validate_and_save(cfg, trainer, task, epoch_itr, *args, **kwargs)
    number = _maximum(_state.received, trainer)
    if not number or should_stop:
        return losses, should_stop
    message = _save(cfg.checkpoint, trainer, epoch_itr, losses[0])
    _maximum(0, trainer)  # no process ends before everything is saved
    if _state.prints:
        updates = trainer.get_num_updates()
        _print(f"stopped by {NAMES[number]} after {updates} updates; {message}")
    _state.received = 0
    raise SystemExit(128 + number)


def _maximum(number, trainer):
    """Return the largest of the numbers of all processes."""
    if trainer.data_parallel_world_size == 1:
        return number
    numbers = torch.tensor([number], device=trainer.device)
    distributed_utils.all_reduce(numbers, trainer.data_parallel_process_group, op="max")
    return int(numbers)


def _save(cfg, trainer, epoch_itr, loss):
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
        return f"the same command goes on from {path}"
    return f"--restore-file {path} goes on from there"


@around(distributed_utils, "call_main")
def end_in_one_line(call_main, *args, **kwargs):
    """End in one line after Ctrl-C outside training."""
    try:
        return call_main(*args, **kwargs)
    except KeyboardInterrupt:
        _print("stopped by Ctrl-C")
        raise SystemExit(128 + signal.SIGINT) from None


@around(torch.multiprocessing, "spawn")
def pass_on_sigterm(spawn, fn, *args, **kwargs):
    """Pass SIGTERM on to the processes of a training on several GPUs.

    fairseq-train would end alone, so that its caller does not wait while the others are saving.
    """
    if fn is not distributed_utils.distributed_main:
        return spawn(fn, *args, **kwargs)
    received = []

    def pass_on(number, frame):
        received.append(number)
        for child in multiprocessing.active_children():
            os.kill(child.pid, number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        return spawn(fn, *args, **kwargs)
    except torch.multiprocessing.ProcessExitedException:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _print(message):
    """Print on standard error in a way that a signal handler may use."""
    os.write(2, f"fairseq_posattn: {message}\n".encode())
