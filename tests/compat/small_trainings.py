"""Trainings of a few parameters by fairseq's optimizers, and checkpoints of one weight."""

import io

import pytest
import torch
from fairseq.optim.adam import FairseqAdam
from omegaconf import OmegaConf

SIZES = ((3, 2), (5,), (2, 2, 2), (1,))
# A large epsilon shows where it is added.
ADAM = {"_name": "adam", "adam_betas": "(0.9, 0.98)", "adam_eps": 0.1, "weight_decay": 0.1}
ADAM |= {"lr": [0.05], "fp16_adam_stats": False, "tpu": False}
COMMON = {"fp16_scale_window": 3, "fp16_init_scale": 8, "fp16_scale_tolerance": 0.0, "tpu": False}
COMMON |= {"threshold_loss_scale": None, "min_loss_scale": 1e-4}


class Training:
    """Parameters trained towards fixed values.

    Args:
        wrapper: an optimizer of half precision, or None.
        old: steps by fairseq's Adam. flat: float32 weights are in one tensor.
    """

    def __init__(
        self, dtype=torch.float32, wrapper=None, old=False, flat=False, sizes=SIZES, start=None
    ):
        generator = torch.Generator().manual_seed(1)
        start = start or [torch.randn(size, generator=generator) for size in sizes]
        self.weights = [torch.nn.Parameter(w.detach().to(dtype, copy=True)) for w in start]
        optimizer = {"use_old_adam": old, **ADAM}
        common = {"bf16": dtype is torch.bfloat16, "fp16_no_flatten_grads": not flat, **COMMON}
        cfg = {"common": common, "optimizer": optimizer, "optimization": {"update_freq": [1]}}
        cfg = OmegaConf.create(cfg | {"distributed_training": {"distributed_world_size": 1}})
        self.build = lambda: (
            wrapper.build_optimizer(cfg, self.weights)
            if wrapper
            else FairseqAdam(cfg.optimizer, iter(self.weights))
        )
        self.optimizer = self.build()

    def train(self, updates, used=slice(None), clip_norm=0.0):
        for _ in range(updates):
            self.optimizer.zero_grad()
            loss = sum((weight.float() - 3).pow(2).sum() for weight in self.weights[used])
            self.optimizer.backward(loss)
            self.optimizer.clip_grad_norm(clip_norm)
            self.optimizer.step()
        return self

    def overflow(self):
        self.optimizer.zero_grad()
        self.optimizer.backward(self.weights[0].float().sum() * float("inf"))
        with pytest.raises(OverflowError):
            self.optimizer.clip_grad_norm(0.0)

    def saved_state(self):
        buffer = io.BytesIO()
        torch.save(self.optimizer.state_dict(), buffer)
        buffer.seek(0)
        return torch.load(buffer)

    def resume(self, other):
        """Load the rounded weights of another training, then its optimizer, as fairseq does."""
        for weight, saved in zip(self.weights, other.weights, strict=True):
            weight.data.copy_(saved.data)
        self.optimizer = self.build()
        self.optimizer.load_state_dict(other.saved_state())

    def exact(self):
        weights = self.optimizer.fp32_params
        return list(weights.values() if isinstance(weights, dict) else weights)


def save_checkpoint(path, **entries):
    """Save what fairseq needs of a checkpoint, and further entries; return the path as text."""
    last = {"optimizer_name": "a", "lr_scheduler_state": {}, "num_updates": 1}
    state = {"model": {"weight": torch.arange(6.0)}, "optimizer_history": [last]}
    torch.save({**state, "extra_state": {"train_iterator": {"epoch": 1}}, **entries}, path)
    return str(path)
