"""Optimizers, best losses and restored files of resumed trainings."""

import math
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.data import (
    BaseWrapperDataset,
    ConcatDataset,
    FairseqDataset,
    NestedDictionaryDataset,
)
from fairseq.data.iterators import EpochBatchIterator, GroupedIterator
from fairseq.logging import metrics
from fairseq.optim import (
    AMPOptimizer,
    FairseqOptimizer,
    FP16Optimizer,
    MemoryEfficientFP16Optimizer,
)
from fairseq.optim.lr_scheduler.reduce_lr_on_plateau import (
    ReduceLROnPlateauLRSchedule,
    ReduceLROnPlateauLRScheduleConfig,
)
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer
from fairseq_cli import train
from omegaconf import OmegaConf
from small_trainings import ADAM, Training
from torch.utils.data import TensorDataset

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import resuming
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.inference.averaging import average_checkpoints

FIXTURE = Path(__file__).parents[1] / "fixtures" / "classification"
FORMS = [  # and whether all weights are in one tensor
    (FP16Optimizer, torch.float16, True),
    (FP16Optimizer, torch.float16, False),
    (FP16Optimizer, torch.bfloat16, False),
    (MemoryEfficientFP16Optimizer, torch.float16, False),
    (MemoryEfficientFP16Optimizer, torch.bfloat16, False),
]


def resumed(kind, dtype, flat):
    """Return two trainings of five updates, uninterrupted and resumed after two."""
    alone, stopped, resumed = (Training(dtype, kind, flat=flat) for _ in range(3))
    for training in (alone, stopped):
        training.train(1)
        if dtype is torch.float16:
            training.overflow()
        training.train(1)
    resumed.resume(stopped)
    for training in (alone, resumed):
        training.train(3)
    return alone, resumed


def restore_state(kind, restore):
    """Let an optimizer save and load its state as in fairseq."""
    for owner in kind.__mro__:
        for name in {"state_dict", "load_state_dict"} & vars(owner).keys():
            restore(owner, name)


@pytest.mark.parametrize("kind, dtype, flat", FORMS)
def test_resuming_changes_nothing(kind, dtype, flat):
    alone, other = resumed(kind, dtype, flat)
    assert all(map(torch.equal, alone.weights, other.weights))
    if alone.optimizer.scaler is not None:
        assert vars(alone.optimizer.scaler) == vars(other.optimizer.scaler)


@pytest.mark.parametrize("kind, dtype, flat", FORMS[:4])
def test_resuming_changes_fairseqs_training(kind, dtype, flat, restore):
    restore_state(kind, restore)
    alone, other = resumed(kind, dtype, flat)
    same = all(map(torch.equal, alone.weights, other.weights))
    assert not same or vars(alone.optimizer.scaler) != vars(other.optimizer.scaler)


@pytest.mark.parametrize("kind, dtype, flat", FORMS)
def test_the_state_that_fairseq_saved_is_read(kind, dtype, flat):
    state = Training(dtype, kind, flat=flat).train(2).optimizer.state_dict()
    for key in ("fp32_params", "loss_scaler"):
        state.pop(key, None)
    new = Training(dtype, kind, flat=flat)
    new.optimizer.load_state_dict(state)
    assert new.optimizer.optimizer.state_dict()["state"][0]["step"] == 2
    new.train(1)


def test_weights_of_another_model_are_ignored():
    state = Training(torch.bfloat16, FP16Optimizer).train(2).optimizer.state_dict()
    new = Training(torch.bfloat16, FP16Optimizer)
    before = [weight.clone() for weight in new.exact()]
    new.optimizer.load_state_dict(state)
    assert all(map(torch.equal, new.exact(), before))


@pytest.mark.parametrize("kind, dtype, flat", [(None, torch.float32, False), *FORMS])
def test_flags_of_the_optimizer_replace_those_of_the_checkpoint(kind, dtype, flat, monkeypatch):
    stopped = Training(dtype, kind, flat=flat).train(1)
    stopped.optimizer.set_lr(0.01)
    flags = {"adam_betas": "(0.5, 0.6)", "adam_eps": 0.2, "weight_decay": 0.3}
    for name, value in flags.items():
        monkeypatch.setitem(ADAM, name, value)
    new = Training(dtype, kind, flat=flat)
    new.resume(stopped)
    (group,) = new.optimizer.param_groups
    assert group["lr"] == 0.01  # that of the schedule
    assert [group["betas"], group["eps"], group["weight_decay"]] == [(0.5, 0.6), 0.2, 0.3]
    new.optimizer.load_state_dict(stopped.saved_state(), {"weight_decay": 0.4})
    assert new.optimizer.param_groups[0]["weight_decay"] == 0.4


class CustomOptimizer(FairseqOptimizer):
    """A user's, with weight decay of all but the last weight."""

    def __init__(self, params, decay):
        super().__init__(None)
        *others, last = params
        groups = {"params": others, "weight_decay": decay}, {"params": [last], "weight_decay": 0.0}
        self._optimizer = torch.optim.SGD(groups, lr=0.1)


@pytest.mark.parametrize("config, decay", [(None, 0.1), ({"lr": 0.1, "weight_decay": 0.3}, 0.3)])
def test_groups_of_a_users_optimizer_keep_their_settings(config, decay, monkeypatch):
    saved, new = (CustomOptimizer(Training().weights, decay) for decay in (0.1, 0.3))
    if config:
        monkeypatch.setattr(CustomOptimizer, "optimizer_config", config)
    saved.optimizer.param_groups[0]["steps"] = 5  # stored by some optimizers
    new.load_state_dict(saved.state_dict(), optimizer_overrides=None)  # as of --optimizer composite
    assert [group["weight_decay"] for group in new.param_groups] == [decay, 0.0]
    assert new.param_groups[0]["steps"] == 5


@pytest.mark.parametrize(
    "saved, rate",
    [
        ({"best": None}, 0.05),  # of another schedule
        (None, 0.05),  # --reset-lr-scheduler
        ({"best": 3.0, "last_epoch": 2}, 0.01),
    ],
)
def test_only_a_resumed_plateau_keeps_the_rate_of_the_checkpoint(saved, rate):
    optimizer = Training().optimizer
    cfg = OmegaConf.structured(ReduceLROnPlateauLRScheduleConfig(lr=[0.05]))
    OmegaConf.set_struct(cfg, False)
    cfg.maximize_best_checkpoint_metric = False
    schedule = ReduceLROnPlateauLRSchedule(cfg, optimizer)
    if saved:
        schedule.load_state_dict(saved)
    optimizer.set_lr(0.01)  # the checkpoint's
    schedule.step(3)
    schedule.step(2, 2.5)
    assert optimizer.get_lr() == rate
    optimizer.set_lr(0.02)
    schedule.step(3)  # an epoch without validation
    assert optimizer.get_lr() == 0.02


def test_the_scale_of_mixed_precision_is_resumed_unlike_in_fairseq(restore):
    first, second = (Training(torch.float32, AMPOptimizer).optimizer for _ in range(2))
    for optimizer in (first, second):
        optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    first.scaler.load_state_dict({**first.scaler.state_dict(), "scale": 2.0, "_growth_tracker": 7})
    second.load_state_dict(first.state_dict())
    assert second.scaler.state_dict() == first.scaler.state_dict()
    assert second.scaler.get_scale() == 2.0
    restore_state(AMPOptimizer, restore)
    assert "loss_scaler" not in first.state_dict()


def validate(loss):
    """Call fairseq's bookkeeping of a validation, without saving."""
    checkpoint = SimpleNamespace(no_save=True, patience=1, save_dir=".")
    checkpoint.maximize_best_checkpoint_metric = False
    trainer = SimpleNamespace(data_parallel_rank=0, get_num_updates=lambda: 1)
    checkpoint_utils.save_checkpoint(checkpoint, trainer, None, loss)
    return train.should_stop_early(SimpleNamespace(checkpoint=checkpoint), loss)


def test_trainings_share_no_best_loss():
    assert not validate(1.0)
    assert validate(2.0)  # worse: it has had its patience
    assert checkpoint_utils.save_checkpoint.best == 1.0
    with pytest.raises(AttributeError):  # there are no settings
        checkpoint_utils.load_checkpoint(None, SimpleNamespace(checkpoint_suffix=""))
    assert not validate(2.0)  # of the next training, whose first and best it is
    assert checkpoint_utils.save_checkpoint.best == 2.0
    resuming.forget_previous_training()


@pytest.mark.parametrize(
    "flag, metric, kept",
    [
        ("restore_file", "loss", True),
        ("restore_file", "accuracy", False),
        ("finetune_from_model", "loss", False),
    ],
)
def test_patience_is_of_one_training_and_metric(flag, metric, kept, make_trainer, tmp_path):
    """It stopped while it improved, if its loss was not below that of the first model."""
    trainer, path = make_trainer(best_checkpoint_metric="loss"), str(tmp_path / "checkpoint.pt")
    progress = {"best": 1.0, "num_runs": 2}
    resuming.early_stopping().update(progress)
    trainer.consolidate_optimizer()
    itr_state = {"epoch": 1, "version": 2, "iterations_in_epoch": 1}
    trainer.save_checkpoint(path, {"train_iterator": itr_state, "best": 1.0, "val_loss": 1.5})
    flags = {flag: path, "best_checkpoint_metric": metric}
    trainer = make_trainer(save_dir=str(tmp_path / "tuned"), **flags)
    checkpoint_utils.load_checkpoint(trainer.cfg.checkpoint, trainer)
    assert resuming.early_stopping() == (progress if kept else {})
    assert hasattr(checkpoint_utils.save_checkpoint, "best") == kept
    resuming.forget_previous_training()


@pytest.mark.parametrize(
    "flags, left",
    [
        ({}, {"best": 3.0, "last_epoch": 2}),
        ({"lr": [0.2]}, {"best": 3.0}),  # without the epoch it is another schedule's
        ({"lr": [0.2], "_name": "mine"}, {"best": 3.0, "last_epoch": 2}),  # a user's
        ({"best_checkpoint_metric": "ppl"}, {"best": math.inf, "last_epoch": 2}),
        (
            {"best_checkpoint_metric": "bleu", "maximize_best_checkpoint_metric": True},
            {"best": -math.inf, "last_epoch": 2},
        ),
    ],
)
def test_a_plateau_is_of_one_rate_and_metric(flags, left):
    metric = {"best_checkpoint_metric": "loss", "maximize_best_checkpoint_metric": False}
    groups = {"optimization": {"lr": [0.1]}, "checkpoint": metric}
    saved = OmegaConf.create(groups | {"lr_scheduler": {"_name": "reduce_lr_on_plateau"}})
    schedule = {"best": 3.0, "last_epoch": 2}
    history = [{"lr_scheduler_state": schedule}]
    state = {"cfg": saved, "optimizer_history": history, "extra_state": {}}
    cfg = saved.copy()
    for name, value in flags.items():
        group = {"lr": "optimization", "_name": "lr_scheduler"}.get(name, "checkpoint")
        cfg[group][name] = value
    resuming.forget_other_settings(state, cfg)
    assert schedule == left


def test_an_average_starts_at_the_weights_of_a_checkpoint_without_one(make_trainer):
    path = str(FIXTURE / "checkpoint.pt")
    trainer = make_trainer()
    trainer.cfg.ema.store_ema = True
    trainer.load_checkpoint(path, reset_optimizer=True, reset_lr_scheduler=True)
    average = trainer.ema.get_model().state_dict()
    for name, weight in read_checkpoint(path)["model"].items():
        assert torch.equal(average[name], weight)


def test_patience_is_saved(make_trainer, tmp_path, restore, monkeypatch):
    for name, number in (("best", 1.0), ("num_runs", 2)):
        monkeypatch.setattr(train.should_stop_early, name, number, raising=False)
    for key in ({"early_stopping"}, set()):
        trainer, path = make_trainer(), str(tmp_path / "checkpoint.pt")
        trainer.consolidate_optimizer()
        trainer.save_checkpoint(path, {"train_iterator": {"epoch": 1}})
        saved = read_checkpoint(path)["extra_state"]
        assert key == {"early_stopping"} & saved.keys()
        restore(Trainer, "state_dict")


@pytest.mark.parametrize("reset, hours", [(False, 2), (True, 0)])
def test_the_logged_time_goes_on_unless_meters_are_reset(
    reset, hours, make_trainer, tmp_path, restore
):
    """In the middle of an epoch, where fairseq restores the meters without their start."""
    trainer, path = make_trainer(), str(tmp_path / "checkpoint.pt")
    trainer._start_time -= 2 * 3600
    trainer.consolidate_optimizer()
    itr_state = {"epoch": 1, "version": 2, "iterations_in_epoch": 1}
    trainer.save_checkpoint(path, {"train_iterator": itr_state})
    resumed = make_trainer()
    resumed.load_checkpoint(path, reset_meters=reset)
    assert metrics.get_meter("default", "wall").elapsed_time // 3600 == hours
    assert resumed.cumulative_training_time() // 3600 == hours
    restore(Trainer, "load_checkpoint")
    make_trainer().load_checkpoint(path, reset_meters=reset)
    assert metrics.get_meter("default", "wall").elapsed_time < 3600


def batches(shards=1):
    """Return an iterator over twelve batches."""
    sampler, data = [[number] for number in range(12)], TensorDataset(torch.arange(12))
    return EpochBatchIterator(data, list, sampler, 1, shards, reuse_dataloader=True)


@pytest.mark.parametrize("shards, left", [(1, 8), (2, 4), (4, 2)])
def test_the_position_in_the_data_is_that_of_all_processes(shards, left, restore):
    """Two processes have taken two batches each of twelve."""

    def rest_after(state):
        resumed = batches(shards)
        resumed.load_state_dict(state)
        return len(list(resumed.next_epoch_itr(shuffle=False)))

    stopped = batches(2)
    epoch = stopped.next_epoch_itr(shuffle=False)
    for _ in range(2):
        next(epoch)
    assert rest_after(stopped.state_dict()) == left
    restore(EpochBatchIterator, "load_state_dict")
    assert rest_after(stopped.state_dict()) == 12 // shards - 2


@pytest.mark.parametrize("skips, updates", [(False, 5), (True, 4)])
def test_an_epoch_ends_after_its_last_batch_with_another_update_freq(skips, updates, restore):
    """Three of twelve batches were trained on, and an update now has two."""

    def train_on():
        resumed = batches()
        resumed.load_state_dict({"epoch": 1, "iterations_in_epoch": 3})
        grouped = GroupedIterator(resumed.next_epoch_itr(), 2, skips)
        return len(list(grouped)), resumed.end_of_epoch()

    assert train_on() == (updates, True)
    restore(GroupedIterator, "__init__")
    assert train_on() == (4, False)


def test_a_curriculum_ends(restore):
    def epochs():
        iterator = batches()
        return [list(iterator.next_epoch_itr(shuffle=number > 1)) for number in (1, 2)]

    first, second = epochs()
    assert first == sorted(second) != second
    restore(EpochBatchIterator, "_get_iterator_for_epoch")
    assert epochs() == [first, first]


def test_weights_that_do_not_fit_are_one_line(make_trainer, tmp_path, restore):
    state, path = read_checkpoint(FIXTURE / "checkpoint.pt"), str(tmp_path / "other.pt")
    name, _ = state["model"].popitem()
    torch.save(state, path)
    with pytest.raises(UsageError, match=f"^{path} has other weights than the model, {name} among"):
        make_trainer().load_checkpoint(path)
    restore(Trainer, "load_checkpoint")
    with pytest.raises(Exception, match="Cannot load model parameters from checkpoint"):
        make_trainer().load_checkpoint(path)


def test_without_an_optimizer_state_only_weights_are_taken(make_trainer, tmp_path):
    path = str(tmp_path / "average.pt")
    torch.save(average_checkpoints([str(FIXTURE / "checkpoint.pt")]), path)
    with pytest.raises(UsageError, match=f"^{path}: it has no optimizer state and .*-dataloader$"):
        make_trainer().load_checkpoint(path)
    assert make_trainer().load_checkpoint(path, reset_optimizer=True)


def test_a_named_file_must_exist_else_training_starts_from_scratch(make_trainer, tmp_path):
    saved, missing, name = tmp_path / "saved", str(tmp_path / "nowhere.pt"), "checkpoint_7.pt"
    saved.mkdir()
    (saved / name).touch()
    (saved / "checkpoint_last.pt").symlink_to(missing)
    for flags, option, file in (
        ({"restore_file": str(tmp_path)}, "--restore-file", tmp_path),
        ({"restore_file": name}, "--restore-file", f"{name}, but {saved}/{name} exists"),
        ({"continue_once": missing}, "--continue-once", missing),
        ({"finetune_from_model": str(tmp_path)}, "--finetune-from-model", tmp_path),
        ({}, "--save-dir", f"{saved}/checkpoint_last.pt"),
    ):
        trainer = make_trainer(save_dir=str(saved), **flags)
        with pytest.raises(UsageError, match=f"^{option}: there is no file {file}$"):
            checkpoint_utils.load_checkpoint(trainer.cfg.checkpoint, trainer)
    assert trainer.load_checkpoint(name) is None  # fairseq starts from scratch
    both = {"restore_file": name, "finetune_from_model": name}
    trainer = make_trainer(save_dir=str(saved), **both)
    with pytest.raises(UsageError, match=r"--finetune-from-model: it cannot be .* out$"):
        checkpoint_utils.load_checkpoint(trainer.cfg.checkpoint, trainer)


class EpochDataset(FairseqDataset):
    """Two items that are the epoch."""

    sizes, epoch = numpy.array([1, 1]), 0

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.tensor(self.epoch)

    def set_epoch(self, epoch):
        self.epoch = epoch

    def num_tokens_vec(self, indices):
        return self.sizes[indices]

    collater = staticmethod(torch.stack)


WRAPPED = {
    "alone": lambda data: data,
    "wrapped": BaseWrapperDataset,
    "in a dictionary": lambda data: NestedDictionaryDataset({"item": data}, sizes=data.sizes),
}


@pytest.mark.parametrize("wrap", WRAPPED.values(), ids=WRAPPED)
def test_processes_that_load_data_learn_the_epoch(wrap, restore):
    def load_epochs():
        iterator = FairseqTask(None).get_batch_iterator(
            wrap(EpochDataset()), max_sentences=2, num_workers=1
        )
        batches = [next(iter(iterator.next_epoch_itr())) for _ in range(2)]
        return [batch["item"] if isinstance(batch, dict) else batch for batch in batches]

    assert torch.stack(load_epochs()).tolist() == [[1, 1], [2, 2]]
    restore(FairseqTask, "get_batch_iterator")
    assert torch.stack(load_epochs()).tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("rebuilds", [False, True])
def test_the_epoch_of_batches_is_saved_unless_each_epoch_makes_its_own(rebuilds):
    task = FairseqTask(SimpleNamespace(rebuild_batches=rebuilds))
    iterator = task.get_batch_iterator(EpochDataset(), max_sentences=2)
    assert list(iterator.next_epoch_itr()) and list(iterator.next_epoch_itr())
    assert iterator.state_dict().get(resuming.EPOCH) == (None if rebuilds else 1)


def test_only_data_of_an_epoch_need_new_processes():
    assert resuming.depends_on_epoch(ConcatDataset([EpochDataset()]))
    assert not resuming.depends_on_epoch(BaseWrapperDataset(TensorDataset(torch.ones(2))))
