"""Resumed training takes the same steps as uninterrupted training.

The defects are those of fairseq 0.12. Checkpoints without the added state are read as before.
"""

import argparse
import collections
import contextlib
import logging
import math
import os
import time
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy
import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.data import (
    BaseWrapperDataset,
    ConcatDataset,
    FairseqDataset,
    NestedDictionaryDataset,
)
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.file_io import PathManager
from fairseq.logging import metrics
from fairseq.optim import FairseqOptimizer
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin, _MemoryEfficientFP16OptimizerMixin
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import ReduceLROnPlateauLRSchedule
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer
from torch import Tensor

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.fingerprints import KEY, check_in_training, fingerprints
from fairseq_posattn.compat.matching import LAST, report_difference_in_training
from fairseq_posattn.compat.patching import Function, around, replaced, training_loop

logger = logging.getLogger(__name__)

EMA_COUNTER = "ema_update_freq_counter"
PROGRESS = ("best", "num_runs")  # of --patience, in attributes of fairseq's functions
EPOCH = "batches_of_epoch"
FORWARDING = (FairseqDataset, BaseWrapperDataset, NestedDictionaryDataset, ConcatDataset)


@around(checkpoint_utils, "load_checkpoint")
def resume(load_checkpoint: Function, cfg: Any, trainer: Any, **kwargs: Any) -> Any:
    """Load the checkpoint that training resumes from, with the state that fairseq leaves out."""
    forget_previous_training()
    if cfg.restore_file:  # else the user wants none
        require_restored_file(cfg, trainer)
    extra_state, epoch_itr = load_checkpoint(cfg, trainer, **kwargs)
    finish_saved_epoch(cfg, trainer, extra_state or {}, epoch_itr)
    early_stopping().update((extra_state or {}).get("early_stopping", {}))
    leave_finished_run(trainer, epoch_itr)
    return extra_state, epoch_itr


def forget_previous_training() -> None:
    """Reset what fairseq keeps of earlier trainings in the same process, such as a sweep's."""
    for name in PROGRESS:
        vars(checkpoint_utils.save_checkpoint).pop(name, None)
        early_stopping().pop(name, None)


def early_stopping() -> dict[str, Any]:
    """Return the attributes of fairseq-train's function of ``--patience``, by name."""
    return vars(getattr(training_loop(), "should_stop_early", argparse.Namespace()))


def require_restored_file(cfg: Any, trainer: Any) -> None:
    """Raise UsageError for a missing file, or a folder, to start from: fairseq ignores it."""
    path = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
    option = "--restore-file"
    if cfg.restore_file == LAST:
        option, path = "--save-dir", os.path.join(cfg.save_dir, path)
        if not PathManager.exists(path):
            starts = {"--continue-once": getattr(cfg, "continue_once", None)}
            starts["--finetune-from-model"] = cfg.finetune_from_model
            named = ((name, start) for name, start in starts.items() if start)
            option, path = next(named, (option, path))
    elif cfg.finetune_from_model:  # fairseq prints all settings
        fix = "it cannot be used with --restore-file; leave one of them out"
        raise UsageError(f"--finetune-from-model: {fix}")
    if not PathManager.isfile(path) and (option != "--save-dir" or os.path.lexists(path)):
        inside = os.path.join(cfg.save_dir, os.path.basename(path))
        hint = f", but {inside} exists" if inside != path and os.path.isfile(inside) else ""
        raise UsageError(f"{option}: there is no file {path}{hint}")


def finish_saved_epoch(cfg: Any, trainer: Any, extra_state: dict[str, Any], epoch_itr: Any) -> None:
    """Step the schedule at the end of an epoch, which fairseq saves before that step."""
    state = extra_state.get("train_iterator", {})
    is_resumed = state.get("epoch") == epoch_itr.epoch > 1  # false if everything was reset
    resets = cfg.reset_optimizer or cfg.reset_lr_scheduler or cfg.reset_dataloader
    if is_resumed and not resets and state.get("iterations_in_epoch") == 0:
        trainer.lr_step(epoch_itr.epoch - 1, extra_state.get("val_loss"))


def leave_finished_run(trainer: Any, epoch_itr: Any) -> None:
    """Leave no epoch if the run has finished: fairseq does one more update before it notices."""
    limits, patience = trainer.cfg.optimization, trainer.cfg.checkpoint.patience
    updates, hours = trainer.get_num_updates(), trainer.cumulative_training_time() / 3600
    bad = early_stopping().get("num_runs", 0)
    reason, epochs = None, epoch_itr.next_epoch_idx - 1
    if 0 < limits.max_epoch <= epochs:
        reason = f"the checkpoint has {epochs} epochs and --max-epoch is {limits.max_epoch}"
    elif limits.max_update and updates >= limits.max_update:
        reason = f"the checkpoint has {updates} updates and --max-update is {limits.max_update}"
    elif 0 < limits.stop_time_hours < hours:
        reason = f"it took {hours:.2f} hours and --stop-time-hours is {limits.stop_time_hours}"
    elif 0 < patience <= bad:
        reason = f"the last {bad} validations were no better, and --patience is {patience}"
    if reason:
        logger.info(f"nothing left to train: {reason}")
        limits.max_epoch = -1  # no epoch is left either


@around(Trainer, "load_checkpoint")
def load_all_state(
    load_checkpoint: Function,
    self: Any,
    filename: str,
    reset_optimizer: bool = False,
    reset_lr_scheduler: bool = False,
    optimizer_overrides: dict[str, Any] | None = None,
    reset_meters: bool = False,
) -> Any:
    """Check the dictionaries, and load what fairseq does not; errors are one line."""
    with report_difference_in_training(self, filename), fitted_state(self, reset_optimizer):
        resets = reset_optimizer, reset_lr_scheduler, optimizer_overrides, reset_meters
        extra_state = load_checkpoint(self, filename, *resets)
    if extra_state:
        check_in_training(self, extra_state)
        load_ema_counter(self, extra_state)
        continue_clock(self, reset_meters)
        if reset_optimizer or reset_meters:  # as for the best loss; --finetune-from-model does both
            extra_state.pop("early_stopping", None)
    # the epoch whose seed made the batches
    state = (extra_state or {}).get("train_iterator", {})
    self.epochs_of_batches = {state["epoch"]: state[EPOCH]} if EPOCH in state else {}
    return extra_state


@contextlib.contextmanager
def fitted_state(trainer: Any, reset_optimizer: bool) -> Iterator[None]:
    """Fit the state of a checkpoint to the flags while it is loaded.

    ``--store-ema`` starts at the weights of a checkpoint without averaged weights. fairseq means
    to, but has deleted the weights by then: KeyError.
    """
    load = checkpoint_utils.load_checkpoint_to_cpu

    def load_fitted(*args: Any, **kwargs: Any) -> Any:
        state = load(*args, **kwargs)
        # fairseq would start at update 0, in the checkpoint's epoch.
        if not reset_optimizer and state.get("last_optimizer_state") is None:
            fix = "give --finetune-from-model and an empty --save-dir, or --reset-optimizer"
            fix += " --reset-dataloader"  # else it would start in the checkpoint's epoch, too
            raise UsageError(f"it has no optimizer state and cannot be resumed; {fix}")
        if trainer.cfg.ema.store_ema:
            state["extra_state"].setdefault("ema", state["model"])
        forget_other_settings(state, trainer.cfg)
        return state

    with replaced(checkpoint_utils, "load_checkpoint_to_cpu", load_fitted):
        yield


def forget_other_settings(state: dict[str, Any], cfg: Any) -> None:
    """Remove what a checkpoint stores of another ``--best-checkpoint-metric`` or ``--lr``.

    fairseq compares BLEU with the best loss, and ``reduce_lr_on_plateau`` keeps the rate.
    """

    def differs(group: str, name: str) -> bool:
        saved, value = ((config or {}).get(group) or {} for config in (state.get("cfg"), cfg))
        return name in saved and str(saved[name]) != str(value[name])

    is_plateau = getattr(cfg.lr_scheduler, "_name", None) == "reduce_lr_on_plateau"
    last = state["optimizer_history"][-1:] if is_plateau else []
    schedules = [entry.get("lr_scheduler_state", {}) for entry in last]
    if differs("checkpoint", "best_checkpoint_metric"):
        for name in ("best", "val_loss", "early_stopping"):
            state["extra_state"].pop(name, None)
        worst = -math.inf if cfg.checkpoint.maximize_best_checkpoint_metric else math.inf
        for schedule in schedules:
            schedule["best"] = worst
    if differs("optimization", "lr"):  # without its last epoch a plateau starts anew
        for schedule in schedules:
            schedule.pop("last_epoch", None)


def continue_clock(trainer: Any, reset: bool) -> None:
    """Let "wall" in the log count on from the checkpoint's training time: fairseq's stays at 0.

    ``reset``: training starts from a model of another run, whose time fairseq would count.
    """
    if reset:
        trainer._previous_training_time = 0
    wall = metrics.get_meter("default", "wall")
    if wall is not None:
        seconds = float(trainer.cumulative_training_time())  # of other processes a tensor
        wall.start_time = time.perf_counter() - seconds


@around(distributed_utils, "_broadcast_object_slow")
def allow_types(broadcast: Function, *args: Any, **kwargs: Any) -> Any:
    """Allow the types of a checkpoint between the processes of one run, but not in files.

    fairseq sends it by ``torch.load``, which since PyTorch 2.6 refuses its settings and metrics.
    """
    number, array = numpy.float64(0), numpy.zeros(1)
    dtypes = [type(numpy.dtype(name)) for name in ("float32", "float64", "int32", "int64", "bool")]
    types = [
        distributed_utils._TensorPlaceholder,
        *(argparse.Namespace, omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.AnyNode),
        *(omegaconf.base.ContainerMetadata, omegaconf.base.Metadata, collections.defaultdict),
        *(dict, list, int, (typing.Any, "typing.Any")),
        *(numpy.ndarray, numpy.dtype, *dtypes, number.__reduce__()[0], array.__reduce__()[0]),
    ]
    with torch.serialization.safe_globals(types):
        return broadcast(*args, **kwargs)


# --- State that fairseq does not save -------------------------------------------------------------


class Entry(NamedTuple):
    """A saved state's entry, unless None, by ``get(owner)``; ``put(owner, value)`` loads it."""

    key: str
    get: Callable[[Any], Any]
    put: Callable[[Any, Any], object]


def _save_too(owner: type, *entries: Entry) -> None:
    """Add entries to the saved state of a class."""

    def save(state_dict: Function, self: Any) -> dict[str, Any]:
        values = {entry.key: entry.get(self) for entry in entries}
        return state_dict(self) | {key: value for key, value in values.items() if value is not None}

    def load(
        load_state_dict: Function, self: Any, state_dict: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        load_state_dict(self, state_dict, *args, **kwargs)
        for entry in entries:
            if entry.key in state_dict:
                entry.put(self, state_dict[entry.key])

    for name, patch in (("state_dict", save), ("load_state_dict", load)):
        # By these names patches are known once applied, and tests leave them out.
        patch.__name__ = patch.__qualname__ = f"{name}_of_{owner.__name__.strip('_')}"
        around(owner, name)(patch)


def _fp32_weights(optimizer: Any) -> list[Tensor]:
    """Return the float32 weights: one each, or one per device, depending on fairseq's flags."""
    weights = optimizer.fp32_params
    several = weights.values() if isinstance(weights, dict) else weights
    return [weight.detach() for weight in several]


def _load_fp32_weights(optimizer: Any, saved: Sequence[Tensor]) -> None:
    """Load float32 weights, unless they are not the model's, which may be an average."""
    weights, half = _fp32_weights(optimizer), optimizer.fp16_params[0].dtype
    saved = [exact.to(weights[0].device) for exact in saved]
    pairs = list(zip(weights, saved, strict=False))
    if len(weights) == len(saved) and all(
        left.shape == right.shape and left.to(half).equal(right.to(half)) for left, right in pairs
    ):
        for weight, exact in pairs:
            weight.copy_(exact)
    else:
        logger.info("the checkpoint's float32 weights are not its model's and are ignored")


# In half precision the optimizer stores float32 weights; fairseq saves the model's, rounded. It
# also forgets when the scale of the loss last changed; bfloat16 has none.
FP32_WEIGHTS = Entry("fp32_params", _fp32_weights, _load_fp32_weights)
SCALER_STATE = ("_iter", "_last_overflow_iter", "_last_rescale_iter", "_overflows_since_rescale")
SCALER = Entry(
    "loss_scaler",
    lambda self: self.scaler and {name: getattr(self.scaler, name) for name in SCALER_STATE},
    lambda self, state: self.scaler and vars(self.scaler).update(state),
)
AMP_SCALER = Entry(
    "loss_scaler",
    lambda self: self.scaler.state_dict(),
    lambda self, state: state and self.scaler.load_state_dict(state),
)


def _counter(name: str) -> Entry:
    """Return the entry of an attribute of PyTorch's schedule."""
    return Entry(
        name,
        lambda self: getattr(self.lr_scheduler, name),
        lambda self, value: setattr(self.lr_scheduler, name, value),
    )


_save_too(_FP16OptimizerMixin, FP32_WEIGHTS, SCALER)
_save_too(_MemoryEfficientFP16OptimizerMixin, SCALER)
_save_too(AMPOptimizer, AMP_SCALER)
_save_too(ReduceLROnPlateauLRSchedule, *map(_counter, ("num_bad_epochs", "cooldown_counter")))


@around(Trainer, "state_dict")
def save_all_state(state_dict: Function, self: Any) -> dict[str, Any]:
    """Save what fairseq does not: dictionaries' fingerprints, ``--patience``, averaged weights."""
    state, entry = state_dict(self), {KEY: fingerprints(self.task)}
    state |= {name: state[name] | entry for name in ("task_state", "extra_state")}
    if self.cfg.ema.store_ema:
        state["extra_state"][EMA_COUNTER] = self.ema.update_freq_counter
    progress = {name: early_stopping()[name] for name in PROGRESS if name in early_stopping()}
    state["extra_state"]["early_stopping"] = progress
    return state


def load_ema_counter(trainer: Any, extra_state: dict[str, Any]) -> None:
    """Load the number of updates since the last average."""
    if trainer.cfg.ema.store_ema:
        trainer.ema.update_freq_counter = extra_state.get(EMA_COUNTER, 0)


@around(FairseqOptimizer, "load_state_dict")
def take_settings_of_flags(
    load_state_dict: Function,
    self: Any,
    state_dict: Any,
    optimizer_overrides: dict[str, Any] | None = None,
) -> None:
    """Take weight decay, betas and the like from the flags, as fairseq's docstring says.

    fairseq takes the checkpoint's, although the next checkpoint names the flags. Schedules set the
    rate. A group keeps its own settings, and what a user's optimizer stores beside them.
    """
    names: set[str] = set()
    with contextlib.suppress(NotImplementedError):  # a user's optimizer
        names = {*self.optimizer_config} - {"lr"}
    groups = [{name: group[name] for name in names & group.keys()} for group in self.param_groups]
    load_state_dict(self, state_dict)
    for group, settings in zip(self.param_groups, groups, strict=True):
        group.update(settings | (optimizer_overrides or {}))


@around(ReduceLROnPlateauLRSchedule, "step")
def step_with_loss_only(
    step: Function, self: Any, epoch: int, val_loss: float | None = None
) -> Any:
    """Count no epoch on resuming, when fairseq calls this without a loss.

    After another schedule or ``--lr`` it starts anew: fairseq keeps the rate and the best loss.
    """
    if val_loss is not None:
        step(self, epoch, val_loss)
    elif self.lr_scheduler.last_epoch == 0:  # no validation yet: others' states have no such number
        self.lr_scheduler.best = self.lr_scheduler.mode_worse
        if self.warmup_end:
            self.optimizer.set_lr(self.cfg.lr[0])
    return self.optimizer.get_lr()


# --- Batches -------------------------------------------------------------------------------------
# Without --update-epoch-batch-itr fairseq makes the batches once, by a seed that depends on the
# epoch in which it starts or resumes, and only shuffles them afterwards.


@around(FairseqTask, "get_batch_iterator")
def note_batches(
    get_batch_iterator: Function,
    self: Any,
    dataset: Any,
    max_tokens: Any = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Note what resuming and validation need to know of the batches."""
    self.max_tokens_of_batches = max_tokens  # for validation.count_left_out
    iterator = get_batch_iterator(self, dataset, max_tokens, *args, **kwargs)
    note_epoch_of_batches(self, dataset, iterator)
    if depends_on_epoch(iterator.dataset):
        # fairseq 0.12.3 starts the processes that load data once: they would not learn the epoch,
        # and masks of language models and sampled news never change.
        iterator.reuse_dataloader = iterator.persistent_workers = False
    return iterator


def note_epoch_of_batches(task: Any, dataset: Any, iterator: Any) -> None:
    """Note the epoch whose seed made the batches that are reused; some tasks make them anew."""
    if task.dataset_to_epoch_iter.get(dataset) is iterator and not callable(iterator.batch_sampler):
        vars(iterator).setdefault(EPOCH, iterator.epoch)


def depends_on_epoch(dataset: Any) -> bool:
    """Return whether a dataset, or one that it wraps, does more with an epoch than to forward it.

    ``dataset`` may be any of PyTorch's.
    """
    if not isinstance(dataset, FairseqDataset):
        return False
    wrapped = [*getattr(dataset, "defn", {}).values(), *getattr(dataset, "datasets", ())]
    wrapped += vars(dataset).values()
    forwards = any(type(dataset).set_epoch is kind.set_epoch for kind in FORWARDING)
    return not forwards or any(map(depends_on_epoch, wrapped))


@around(EpochBatchIterator, "state_dict")
def save_position_in_data(state_dict: Function, self: Any) -> dict[str, Any]:
    """Save the batches' epoch and the numbers of processes and batches; fairseq saves neither."""
    state = state_dict(self) | ({EPOCH: getattr(self, EPOCH)} if hasattr(self, EPOCH) else {})
    return state | {"num_shards": self.num_shards, "num_batches": len(self.frozen_batches)}


@around(EpochBatchIterator, "load_state_dict")
def load_position_in_data(load_state_dict: Function, self: Any, state_dict: dict[str, Any]) -> None:
    """Resume at the same position on any number of processes; fairseq skips batches, or fails."""
    if "num_batches" in state_dict:
        taken = state_dict["iterations_in_epoch"] * state_dict["num_shards"]
        ours = taken * len(self.frozen_batches) // (state_dict["num_batches"] * self.num_shards)
        state_dict = {**state_dict, "iterations_in_epoch": ours}
    if hasattr(self.dataset, "set_epoch"):  # before the processes start that load the data
        self.dataset.set_epoch(state_dict["epoch"])
    load_state_dict(self, state_dict)


@around(EpochBatchIterator, "_get_iterator_for_epoch")
def end_curriculum(
    get_iterator: Function, self: Any, epoch: int, shuffle: bool, *args: Any, **kwargs: Any
) -> Any:
    """Shuffle after the epochs of ``--curriculum``: fairseq 0.12.3 does as in the first epoch."""
    if hasattr(self, "epoch_batch_sampler"):
        self.epoch_batch_sampler.shuffle = shuffle
    return get_iterator(self, epoch, shuffle, *args, **kwargs)


@around(GroupedIterator, "__init__")
def group_remaining_batches(
    init: Function, self: Any, iterable: Any, chunk_size: int, skip_remainder_batch: bool = False
) -> None:
    """Count the updates of the remaining batches, also if ``--update-freq`` does not divide them.

    fairseq rounds the batches before them to updates. Some batches stay, and the epoch is repeated.
    """
    init(self, iterable, chunk_size, skip_remainder_batch)
    done = getattr(iterable, "n", 0)
    updates, rest = divmod(len(iterable) - done, chunk_size)
    if skip_remainder_batch:
        iterable.take(done + updates * chunk_size)
    self.total = self.n + updates + (rest > 0 and not skip_remainder_batch)


@around(Trainer, "get_train_iterator")
def make_batches_of_that_epoch(
    get_train_iterator: Function, self: Any, epoch: int, *args: Any, **kwargs: Any
) -> Any:
    """Make the batches again, once on resuming, unless ``--reset-dataloader`` starts over."""
    resumed = vars(self).pop("epochs_of_batches", {})
    iterator = get_train_iterator(self, resumed.get(epoch, epoch), *args, **kwargs)
    self.training_dummy = self._dummy_batch  # for updates.complete_batches
    return iterator
