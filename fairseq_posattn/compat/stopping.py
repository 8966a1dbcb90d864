"""SIGTERM and Ctrl-C while fairseq-train trains, which save what was trained and end in one line.

fairseq 0.12 ends at once, and all since the last checkpoint is lost. Here the update under way is
finished, with its validation if one is due, and ``checkpoint_last.pt`` is written, from which the
same command goes on. It is enough that one of several processes is told. A second one of either
ends the program at once.
"""

import os
import signal
import threading
from types import SimpleNamespace

import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils
from fairseq.trainer import Trainer

from fairseq_posattn.compat.command_loops import training_loop
from fairseq_posattn.compat.patching import around, wrap

NAMES = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}

# The process with the handlers, and those before; whether it speaks for all processes; whether it
# trains; the signal that it got.
_state = SimpleNamespace(process=None, before={}, speaks=True, trains=False, received=0)


@around(Trainer, "__init__")
def _listen(init, self, *args, **kwargs):
    init(self, *args, **kwargs)
    loop, _state.speaks = training_loop(), self.is_data_parallel_master
    if loop is not None and threading.current_thread() is threading.main_thread():
        wrap(loop, "train", _while_training)
        wrap(loop, "validate_and_save", _stop_if_told)
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
    if os.getpid() != _state.process:  # one that loads data: Ctrl-C reaches it, too
        return
    if not _state.trains:
        _as_before(number, frame)
        return
    _state.received = number
    for second in _state.before:
        signal.signal(second, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # those that load data may have got it, too
    if _state.speaks:
        _say(f"{NAMES[number]}: stopping after this update; a second one stops at once")


def _as_before(number, frame):
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
def _note_saving(save_checkpoint, cfg, trainer, *args, **kwargs):
    path = save_checkpoint(cfg, trainer, *args, **kwargs)
    trainer.updates_saved = trainer.get_num_updates()
    return path


def _stop_if_told(validate_and_save, cfg, trainer, task, epoch_itr, *args, **kwargs):
    """Here, an update is done with all that belongs to it."""
    losses, should_stop = validate_and_save(cfg, trainer, task, epoch_itr, *args, **kwargs)
    number = _of_any_process(_state.received, trainer)
    if not number or should_stop:
        return losses, should_stop
    said = _save(cfg.checkpoint, trainer, epoch_itr, losses[0])
    _of_any_process(0, trainer)  # none ends before all is saved
    if _state.speaks:
        updates = trainer.get_num_updates()
        _say(f"stopped by {NAMES[number]} after {updates} updates; {said}")
    _state.received = 0
    raise SystemExit(128 + number)


def _of_any_process(number, trainer):
    """The largest of the numbers of all processes."""
    if trainer.data_parallel_world_size == 1:
        return number
    numbers = torch.tensor([number], device=trainer.device)
    distributed_utils.all_reduce(numbers, trainer.data_parallel_process_group, op="max")
    return int(numbers)


def _save(cfg, trainer, epoch_itr, loss):
    """Write ``checkpoint_last.pt``, without what else may belong to it; return what to say."""
    if cfg.no_save or cfg.no_last_checkpoints:
        return "nothing was saved for it, as the flags say"
    path = os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
    if getattr(trainer, "updates_saved", None) != trainer.get_num_updates():
        extra_state = place_in_training(trainer, epoch_itr, loss)
        trainer.consolidate_optimizer()
        if trainer.should_save_checkpoint_on_current_rank:
            trainer.save_checkpoint(path, extra_state)
        elif trainer.always_call_state_dict_during_save_checkpoint:
            trainer.state_dict()
    if cfg.restore_file == "checkpoint_last.pt":  # as it is if it is not given
        return f"the same command goes on from {path}"
    return f"--restore-file {path} goes on from there"


def place_in_training(trainer, epoch_itr, loss):
    """What a checkpoint has beside the trainer's own state, to go on from it."""
    extra_state = {"train_iterator": epoch_itr.state_dict(), "val_loss": loss}
    if hasattr(checkpoint_utils.save_checkpoint, "best"):
        extra_state["best"] = checkpoint_utils.save_checkpoint.best
    if hasattr(trainer.task, "get_checkpoint_dict"):
        extra_state.update(trainer.task.get_checkpoint_dict())
    return extra_state


@around(distributed_utils, "call_main")
def _end_in_one_line(call_main, *args, **kwargs):
    """Ctrl-C where nothing is trained yet, or no longer."""
    try:
        return call_main(*args, **kwargs)
    except KeyboardInterrupt:
        _say("stopped by Ctrl-C")
        raise SystemExit(128 + signal.SIGINT) from None


def _say(message):
    """On standard error, which a handler of signals may write to in no other way."""
    os.write(2, f"fairseq_posattn: {message}\n".encode())
