"""Copies between half precision and float32, all at once: what fairseq copies one by one."""

import pytest
import torch
from fairseq.optim import FP16Optimizer
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_posattn import compat

compat.apply()

SIZES = ((3, 2), (5,), (2, 2, 2), (1,))
MENDED = ("_sync_fp16_grads_to_fp32", "_sync_fp32_params_to_fp16", "zero_grad")
FORMS = [("fp16", True), ("fp16", False), ("bf16", False)]  # and whether in one tensor


@pytest.fixture(autouse=True)
def on_the_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "current_device", lambda: None)


class Operations(TorchDispatchMode):
    """How many there are but for views."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += not function.is_view
        return function(*args, **(kwargs or {}))


class Training:
    def __init__(self, precision, flat, sizes=SIZES, old=False):
        generator = torch.Generator().manual_seed(1)
        dtype = torch.bfloat16 if precision == "bf16" else torch.float16
        self.weights = [
            torch.nn.Parameter(torch.randn(size, generator=generator).to(dtype)) for size in sizes
        ]
        adam = {"_name": "adam", "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "lr": [0.05]}
        adam |= {"weight_decay": 0.1, "use_old_adam": old, "fp16_adam_stats": False, "tpu": False}
        common = {"fp16_no_flatten_grads": not flat, "bf16": precision == "bf16"}
        common |= {"fp16_scale_window": 1, "fp16_init_scale": 4, "fp16_scale_tolerance": 0.0}
        common |= {"threshold_loss_scale": None, "min_loss_scale": 1e-4}
        cfg = OmegaConf.create({"common": common, "optimizer": adam})
        self.optimizer = FP16Optimizer.build_optimizer(cfg, self.weights)

    def update(self, used=slice(None)):
        self.optimizer.zero_grad()
        loss = sum((weight.float() - 3).pow(2).sum() for weight in self.weights[used])
        self.optimizer.backward(loss)
        self.optimizer.clip_grad_norm(0.5)
        self.optimizer.step()

    def exact(self):
        weights = self.optimizer.fp32_params
        return list(weights.values() if isinstance(weights, dict) else weights)


def train(*form):
    """The weights, as they are and in float32, after updates of which one leaves some out."""
    training = Training(*form)
    for used in (slice(None), slice(1, 3), slice(None)):
        training.update(used)
    return [weight.detach() for weight in (*training.weights, *training.exact())]


@pytest.mark.parametrize("form", FORMS)
def test_updates_are_those_of_copies_one_by_one(form, monkeypatch):
    ours = train(*form)
    for name in MENDED:
        own = getattr(_FP16OptimizerMixin, name).__wrapped__
        monkeypatch.setattr(_FP16OptimizerMixin, name, own)
    theirs = train(*form)
    assert not torch.equal(ours[0], Training(*form).weights[0])
    for one, other in zip(ours, theirs, strict=True):
        assert torch.equal(one, other)


def count(*training):
    """Operations of what is mended, in an update."""
    training = Training(*training)
    training.update()
    training.optimizer._needs_sync = True
    with Operations() as operations:
        training.optimizer._sync_fp16_grads_to_fp32()
        training.optimizer._sync_fp32_params_to_fp16()
        training.optimizer.zero_grad()
    return operations.count


@pytest.mark.parametrize("form", FORMS)
def test_launches_do_not_grow_with_the_number_of_parameters(form):
    assert count(*form) == count(*form, SIZES * 5) == 3


def test_the_old_adam_has_the_old_copies():
    assert count("bf16", False, SIZES * 5, True) >= 3 * 5 * len(SIZES)


def test_gradients_that_are_not_there_are_made_as_fairseq_makes_them():
    training = Training("bf16", False)
    for weight in training.optimizer.fp32_params:
        weight.grad = None
    training.update()
    assert all(weight.grad is not None for weight in training.optimizer.fp32_params)


def test_weights_on_several_devices_are_left_to_fairseq():
    training = Training("fp16", True)
    (flat,) = training.optimizer.fp32_params.values()
    training.optimizer.fp32_params["another"] = torch.nn.Parameter(torch.zeros(0))
    training.optimizer.fp32_params["another"].grad = torch.zeros(0)
    with torch.no_grad():
        flat.fill_(7)
    training.optimizer._sync_fp32_params_to_fp16()
    assert all(bool((weight == 7).all()) for weight in training.weights)
