"""What float16 and bfloat16 training needs beside the model, and fairseq does not save.

An optimizer of half precision keeps the weights in float32, and the model holds them rounded. The
checkpoints of fairseq 0.12 hold the rounded ones only, so that a resumed run takes other steps than
one left alone; they also forget when the scale of the loss was last changed. Checkpoints without
these are read as before.
"""

import logging

import torch
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin, _MemoryEfficientFP16OptimizerMixin

from fairseq_posattn.compat.patching import around

logger = logging.getLogger(__name__)

WEIGHTS, SCALER = "fp32_params", "loss_scaler"
COUNTERS = ("_iter", "_last_overflow_iter", "_last_rescale_iter", "_overflows_since_rescale")


def _weights(optimizer):
    """The float32 weights: one tensor each, or all in one, by fairseq's flags."""
    weights = optimizer.fp32_params
    if torch.is_tensor(weights):
        return [weights]
    return list(weights.values() if isinstance(weights, dict) else weights)


@around(_FP16OptimizerMixin, "state_dict")
def _save_weights(state_dict, self):
    return {**state_dict(self), WEIGHTS: [weight.detach() for weight in _weights(self)]}


@around(_FP16OptimizerMixin, "load_state_dict")
def _load_weights(load_state_dict, self, state, *args, **kwargs):
    """Those in the checkpoint count only if they are its model's, which may be an average."""
    load_state_dict(self, state, *args, **kwargs)
    weights, saved = _weights(self), state.get(WEIGHTS)
    if saved is None:
        return
    half = self.fp16_params[0].dtype
    pairs = list(zip(weights, saved, strict=False))
    if len(weights) == len(saved) and all(_rounded_alike(*pair, half) for pair in pairs):
        for weight, exact in pairs:
            weight.data.copy_(exact)
    else:
        logger.info("the float32 weights in the checkpoint are not its model's: they are left")


def _rounded_alike(weight, other, half):
    other = other.to(weight.device)
    return weight.shape == other.shape and torch.equal(weight.to(half), other.to(half))


@around(_FP16OptimizerMixin, "state_dict")
@around(_MemoryEfficientFP16OptimizerMixin, "state_dict")
def _save_counters(state_dict, self):
    state = state_dict(self)
    if self.scaler is None:  # bfloat16
        return state
    return {**state, SCALER: {name: getattr(self.scaler, name) for name in COUNTERS}}


@around(_FP16OptimizerMixin, "load_state_dict")
@around(_MemoryEfficientFP16OptimizerMixin, "load_state_dict")
def _load_counters(load_state_dict, self, state, *args, **kwargs):
    load_state_dict(self, state, *args, **kwargs)
    if self.scaler is not None:
        vars(self.scaler).update(state.get(SCALER, {}))


@around(AMPOptimizer, "state_dict")
def _save_scaler(state_dict, self):
    return {**state_dict(self), SCALER: self.scaler.state_dict()}


@around(AMPOptimizer, "load_state_dict")
def _load_scaler(load_state_dict, self, state, *args, **kwargs):
    load_state_dict(self, state, *args, **kwargs)
    if state.get(SCALER):
        self.scaler.load_state_dict(state[SCALER])
