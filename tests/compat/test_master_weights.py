"""Optimizers of half precision go on from what they saved as if they had not stopped."""

import io

import pytest
import torch
from fairseq.optim import AMPOptimizer, FP16Optimizer, MemoryEfficientFP16Optimizer
from omegaconf import OmegaConf

from fairseq_posattn import compat
from fairseq_posattn.compat import master_weights

compat.apply()


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


@pytest.fixture
def forget(monkeypatch):
    """Give one of the optimizers fairseq's own functions again."""

    def forget(kind):
        for owner in kind.__mro__:
            for name in ("state_dict", "load_state_dict"):
                function = vars(owner).get(name)
                while hasattr(function, "__wrapped__"):
                    function = function.__wrapped__
                    monkeypatch.setattr(owner, name, function)

    return forget


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
def test_fairseq_does_not(kind, dtype, common, forget):
    forget(kind)
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
    for key in (master_weights.WEIGHTS, master_weights.SCALER):
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
