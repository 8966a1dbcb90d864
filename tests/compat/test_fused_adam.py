"""Adam by PyTorch's fused step: fairseq's numbers, its state, and its other ways of stepping."""

import copy
import io

import pytest
import torch
from fairseq.optim import FP16Optimizer, MemoryEfficientFP16Optimizer
from fairseq.optim.adam import Adam, FairseqAdam
from omegaconf import OmegaConf

from fairseq_posattn import compat
from fairseq_posattn.compat.fused_adam import FusedAdam

compat.apply()

# A large epsilon shows where it is added.
ADAM = {"adam_betas": "(0.9, 0.98)", "adam_eps": 0.1, "weight_decay": 0.1, "lr": [0.05]}
ADAM |= {"fp16_adam_stats": False, "tpu": False}
SIZES = ((3, 2), (5,), (2, 2, 2))


class Training:
    """Parameters on the way to fixed values, one of which has no gradient at first."""

    def __init__(self, old, dtype=torch.float32, wrapper=None, start=None):
        generator = torch.Generator().manual_seed(1)
        start = start or [torch.randn(size, generator=generator) for size in SIZES]
        self.weights = [
            torch.nn.Parameter(weight.detach().to(dtype, copy=True)) for weight in start
        ]
        settings = {"_name": "adam", "use_old_adam": old, **ADAM}
        if wrapper is None:
            self.optimizer = FairseqAdam(OmegaConf.create(settings), iter(self.weights))
        else:
            cfg = {"common": {"bf16": True, "fp16_scale_window": 1}, "optimizer": settings}
            self.optimizer = wrapper.build_optimizer(OmegaConf.create(cfg), self.weights)

    def train(self, updates, weights=slice(None)):
        for _ in range(updates):
            self.optimizer.zero_grad()
            loss = sum((weight.float() - 3).pow(2).sum() for weight in self.weights[weights])
            self.optimizer.backward(loss)
            self.optimizer.clip_grad_norm(0.0)
            self.optimizer.step()
        return self

    def through_a_file(self):
        """What a checkpoint has of the optimizer."""
        buffer = io.BytesIO()
        torch.save(self.optimizer.state_dict(), buffer)
        buffer.seek(0)
        return torch.load(buffer)


FORMS = [
    (torch.float32, None),
    (torch.bfloat16, None),
    (torch.bfloat16, FP16Optimizer),
    (torch.bfloat16, MemoryEfficientFP16Optimizer),
]


def assert_same(ours, theirs):
    for one, other in zip(ours.weights, theirs.weights, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("dtype, wrapper", FORMS)
def test_it_steps_as_fairseqs(dtype, wrapper):
    trainings = [Training(old, dtype, wrapper) for old in (False, True)]
    kinds = [type(training.optimizer.optimizer) for training in trainings]
    assert kinds == [FusedAdam, Adam]
    for training in trainings:
        training.train(2, slice(2)).train(3)
    assert_same(*trainings)
    ours, theirs = (training.through_a_file() for training in trainings)
    assert ours["param_groups"] == theirs["param_groups"]
    for number, state in theirs["state"].items():
        assert ours["state"][number].keys() == state.keys()
        assert ours["state"][number]["step"] == state["step"]
        for name in ("exp_avg", "exp_avg_sq"):
            torch.testing.assert_close(ours["state"][number][name], state[name])


@pytest.mark.parametrize("dtype, wrapper", FORMS)
@pytest.mark.parametrize("old", [True, False])
def test_a_training_goes_on_under_the_other(old, dtype, wrapper):
    begun, alone = (Training(old, dtype, wrapper).train(2) for _ in range(2))
    going_on = Training(not old, dtype, wrapper, begun.weights)
    going_on.optimizer.load_state_dict(copy.deepcopy(begun.through_a_file()))
    assert_same(going_on.train(3), alone.train(3))


def test_sparse_gradients_are_refused():
    training = Training(old=False)
    training.weights[1].grad = torch.zeros(5).to_sparse()
    with pytest.raises(RuntimeError, match="sparse"):
        training.optimizer.step()
