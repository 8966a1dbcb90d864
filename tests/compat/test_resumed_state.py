"""Optimizers, best losses and restored files of resumed trainings."""

import io
from types import SimpleNamespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.optim import AMPOptimizer, FP16Optimizer, MemoryEfficientFP16Optimizer
from fairseq_cli import train
from omegaconf import OmegaConf

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import resuming


def settings(**common):
    adam = {"lr": [0.001], "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "weight_decay": 0.0}
    return OmegaConf.create(
        {
            "common": {
                **{"fp16_init_scale": 8, "fp16_scale_window": 3, "fp16_scale_tolerance": 0.0},
                **{"threshold_loss_scale": None, "min_loss_scale": 1e-4, "tpu": False},
                **common,
            },
            "optimization": {"update_freq": [1]},
            "distributed_training": {"distributed_world_size": 1},
            "optimizer": {"_name": "adam", "use_old_adam": False, "fp16_adam_stats": False, **adam},
        }
    )


class Training:
    """Two parameters of half precision on the way to fixed values."""

    def __init__(self, kind, dtype, **common):
        generator = torch.Generator().manual_seed(1)
        start = [torch.randn(size, generator=generator) for size in ((3, 2), (5,))]
        self.weights = [torch.nn.Parameter(weight.to(dtype)) for weight in start]
        cfg = settings(bf16=dtype is torch.bfloat16, **common)
        self.build = lambda: setattr(self, "optimizer", kind.build_optimizer(cfg, self.weights))
        self.build()

    def train(self, updates):
        for _ in range(updates):
            self.optimizer.zero_grad()
            self.optimizer.backward(sum((weight - 3).pow(2).sum() for weight in self.weights))
            self.optimizer.clip_grad_norm(0.0)
            self.optimizer.step()

    def overflow(self):
        self.optimizer.zero_grad()
        self.optimizer.backward(self.weights[0].sum() * float("inf"))
        with pytest.raises(OverflowError):
            self.optimizer.clip_grad_norm(0.0)

    def save(self):
        """fairseq saves half precision as float32."""
        buffer = io.BytesIO()
        weights = [weight.detach().float() for weight in self.weights]
        torch.save([weights, self.optimizer.state_dict()], buffer)
        buffer.seek(0)
        return buffer

    def load(self, buffer):
        """As fairseq does: the optimizer is built of the weights, and then told of the rest."""
        weights, state = torch.load(buffer)
        for weight, saved in zip(self.weights, weights, strict=True):
            weight.data.copy_(saved)
        self.build()
        self.optimizer.load_state_dict(state)


FORMS = [
    (FP16Optimizer, torch.float16, {}),  # all weights in one tensor
    (FP16Optimizer, torch.float16, {"fp16_no_flatten_grads": True}),
    (FP16Optimizer, torch.bfloat16, {}),
    (MemoryEfficientFP16Optimizer, torch.float16, {}),
    (MemoryEfficientFP16Optimizer, torch.bfloat16, {}),
]


@pytest.fixture(autouse=True)
def flat_weights_on_the_cpu(monkeypatch):
    """fairseq asks for the GPU's number; that of the CPU is None."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)


def resumed(kind, dtype, common):
    """The weights of five updates, left alone and stopped after two, with an overflow before."""
    alone, stopped, going_on = (Training(kind, dtype, **common) for _ in range(3))
    for training in (alone, stopped):
        training.train(1)
        if dtype is torch.float16:
            training.overflow()
        training.train(1)
    going_on.load(stopped.save())
    for training in (alone, going_on):
        training.train(3)
    return alone, going_on


@pytest.mark.parametrize("kind, dtype, common", FORMS)
def test_goes_on_as_it_was(kind, dtype, common):
    alone, going_on = resumed(kind, dtype, common)
    for weight, other in zip(alone.weights, going_on.weights, strict=True):
        assert torch.equal(weight, other)
    if alone.optimizer.scaler is not None:
        assert vars(alone.optimizer.scaler) == vars(going_on.optimizer.scaler)


@pytest.mark.parametrize("kind, dtype, common", FORMS[:4])
def test_fairseq_does_not(kind, dtype, common, restore):
    for owner in kind.__mro__:
        for name in {"state_dict", "load_state_dict"} & vars(owner).keys():
            restore(owner, name)
    alone, going_on = resumed(kind, dtype, common)
    weights = zip(alone.weights, going_on.weights, strict=True)
    same = all(torch.equal(*pair) for pair in weights)
    scaler = alone.optimizer.scaler
    assert not same or vars(scaler) != vars(going_on.optimizer.scaler)


@pytest.mark.parametrize("kind, dtype, common", FORMS)
def test_what_fairseq_saved_is_read(kind, dtype, common):
    old = Training(kind, dtype, **common)
    old.train(2)
    state = old.optimizer.state_dict()
    for key in ("fp32_params", "loss_scaler"):
        state.pop(key, None)
    new = Training(kind, dtype, **common)
    new.optimizer.load_state_dict(state)
    [group] = new.optimizer.optimizer.state_dict()["param_groups"]
    assert group["lr"] == 0.001
    new.train(1)


def test_weights_of_another_model_are_left():
    """As in an average of checkpoints that keeps the optimizer of the last."""
    old = Training(FP16Optimizer, torch.bfloat16)
    old.train(2)
    state = old.optimizer.state_dict()
    new = Training(FP16Optimizer, torch.bfloat16)
    before = [weight.clone() for weight in new.optimizer.fp32_params]
    new.optimizer.load_state_dict(state)
    for weight, expected in zip(new.optimizer.fp32_params, before, strict=True):
        assert torch.equal(weight, expected)


def test_the_scale_of_mixed_precision_goes_on():
    optimizers = []
    for _ in range(2):
        training = Training(AMPOptimizer, torch.float32)
        training.optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        optimizers.append(training.optimizer)
    first, second = optimizers
    first.scaler.load_state_dict({**first.scaler.state_dict(), "scale": 2.0, "_growth_tracker": 7})
    second.load_state_dict(first.state_dict())
    assert second.scaler.state_dict() == first.scaler.state_dict()
    assert second.scaler.get_scale() == 2.0


def validate(loss):
    """What fairseq keeps of a validation, though nothing is saved."""
    checkpoint = SimpleNamespace(
        no_save=True, maximize_best_checkpoint_metric=False, patience=1, save_dir="."
    )
    trainer = SimpleNamespace(data_parallel_rank=0, get_num_updates=lambda: 1)
    checkpoint_utils.save_checkpoint(checkpoint, trainer, None, loss)
    return train.should_stop_early(SimpleNamespace(checkpoint=checkpoint), loss)


def test_the_best_loss_is_this_trainings():
    assert not validate(1.0)
    assert validate(2.0)  # worse: it has had its patience
    assert checkpoint_utils.save_checkpoint.best == 1.0
    resuming.forget_previous_training(lambda cfg, trainer: None, None, None)
    assert not validate(2.0)  # of the next training, whose first and best it is
    assert checkpoint_utils.save_checkpoint.best == 2.0
    resuming.forget_previous_training(lambda cfg, trainer: None, None, None)


def test_what_a_checkpoint_has_stays():
    def load(cfg, trainer):
        checkpoint_utils.save_checkpoint.best = 3.0

    resuming.forget_previous_training(load, None, None)
    assert checkpoint_utils.save_checkpoint.best == 3.0
    resuming.forget_previous_training(lambda cfg, trainer: None, None, None)
    assert not hasattr(checkpoint_utils.save_checkpoint, "best")


def test_a_training_forgets_the_previous_one():
    checkpoint_utils.save_checkpoint.best = 1.0
    with pytest.raises(AttributeError):  # there are no settings
        checkpoint_utils.load_checkpoint(None, SimpleNamespace(checkpoint_suffix=""))
    assert not hasattr(checkpoint_utils.save_checkpoint, "best")


def restored(tmp_path, restore_file):
    """What fairseq is asked to load once the file has been looked for."""
    loaded = []
    cfg = SimpleNamespace(restore_file=restore_file, save_dir=str(tmp_path))
    trainer = SimpleNamespace(checkpoint_suffix="")
    resuming.require_restored_file(
        lambda cfg, trainer: loaded.append(cfg.restore_file), cfg, trainer
    )
    return loaded


@pytest.mark.parametrize("restore_file", ["", "checkpoint_last.pt"])
def test_no_file_and_none_yet_are_from_scratch(tmp_path, restore_file):
    assert restored(tmp_path, restore_file) == [restore_file]


def test_a_file_that_is_named_must_be_there(tmp_path):
    with pytest.raises(UsageError, match="--restore-file: there is no file checkpoint_7.pt"):
        restored(tmp_path, "checkpoint_7.pt")
