"""Activations, dropout and the feed-forward sublayer."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import Linear, drop
from fairseq_posattn.attention.fused import DropoutStreams, dropped_relu
from fairseq_posattn.attention.mechanism import RetainedDropout


def _gelu(x: Tensor) -> Tensor:
    return F.gelu(x.float()).type_as(x)


def _relu_squared(x: Tensor) -> Tensor:
    return F.relu(x).square()


def _linear(x: Tensor) -> Tensor:
    return x


_tanh_gelu = partial(F.gelu, approximate="tanh")

# By the names of fairseq's --activation-fn.
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu_squared": _relu_squared,
    "gelu": _gelu,
    "gelu_fast": _tanh_gelu,  # deprecated alias of gelu_accurate
    "gelu_accurate": _tanh_gelu,
    "tanh": torch.tanh,
    "linear": _linear,
    "swish": F.silu,
}


class Dropout(RetainedDropout, nn.Dropout):
    """Dropout of features. Layers call :func:`drop` with its ``probability``.

    Thousands of calls of modules that do nothing slow a search down.
    """

    def __init__(self, p: float, owner: str = ""):
        super().__init__(p)
        self.owner = owner

    @property
    def probability(self) -> float:
        """The probability in effect, 0 in evaluation."""
        return self.p if self.drops else 0.0

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.probability)


class FeedForward(nn.Module):
    """Position-wise feed-forward sublayer: linear, activation, dropout, linear.

    MANs eq. 3 and 9 read it as mask attention whose mask is the identity. ``activation`` is a name
    of :data:`ACTIVATIONS`. Inputs and outputs are ``[T, B, C]``.
    """

    def __init__(self, embed_dim: int, inner_dim: int, activation: str, dropout: float):
        super().__init__()
        self.fc1 = Linear(embed_dim, inner_dim)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout, type(self).__name__)
        self.fc2 = Linear(inner_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc2(self._hide(x))
        return result

    def without_output_bias(self, streams: DropoutStreams, x: Tensor) -> Tensor:
        """Return :meth:`forward` without ``output_bias``, by kernels where the activation is ReLU.

        The residual sum's kernel adds the bias.
        """
        if self.activation is F.relu:
            hidden = dropped_relu(streams, self.fc1(x), self.dropout.probability)
        else:
            hidden = self._hide(x)
        result: Tensor = self.fc2(hidden, with_bias=False)
        return result

    @property
    def output_bias(self) -> Tensor:
        """The bias that :meth:`without_output_bias` lacks."""
        return self.fc2.bias

    def _hide(self, x: Tensor) -> Tensor:
        return drop(self.activation(self.fc1(x)), self.dropout.probability)
