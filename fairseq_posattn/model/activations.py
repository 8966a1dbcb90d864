"""The activations of feed-forward sublayers, by the names of fairseq's ``--activation-fn``."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor


def _gelu(x: Tensor) -> Tensor:
    return F.gelu(x.float()).type_as(x)


def _relu_squared(x: Tensor) -> Tensor:
    return F.relu(x).square()


def _linear(x: Tensor) -> Tensor:
    return x


_tanh_gelu = partial(F.gelu, approximate="tanh")

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu_squared": _relu_squared,
    "gelu": _gelu,
    "gelu_fast": _tanh_gelu,  # an older name of the next
    "gelu_accurate": _tanh_gelu,
    "tanh": torch.tanh,
    "linear": _linear,
    "swish": F.silu,
}
