"""Activations, dropout and the feed-forward sublayer."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import Linear, drop
from fairseq_posattn.attention.fused import Masks, dropped_relu


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


class Dropout(nn.Dropout):
    """Dropout that fairseq's ``--retain-dropout`` can keep active during generation.

    ``--retain-dropout-modules`` selects it by the class name ``owner``. Layers call :func:`drop`
    with its ``probability``: thousands of calls of modules that do nothing slow a search down.
    """

    def __init__(self, p: float, owner: str = ""):
        super().__init__(p)
        self.owner = owner
        self.retained = False

    @property
    def probability(self) -> float:
        """The probability in effect, 0 in evaluation."""
        return self.p if self.training or self.retained else 0.0

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.probability)

    def make_generation_fast_(
        self, name: str, retain_dropout=False, retain_dropout_modules=None, **unused: Any
    ) -> None:
        """Set whether to drop in generation; fairseq calls this. Without names all modules do."""
        selected = retain_dropout_modules is None or self.owner in retain_dropout_modules
        self.retained = retain_dropout and selected


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

    @property
    def output_bias(self) -> Tensor:
        """The bias that the output of kernels lacks."""
        return self.fc2.bias

    def forward(self, x: Tensor, masks: Masks | None = None) -> Tensor:
        """Map the input to the output; with ``masks`` by kernels and without ``output_bias``."""
        if masks is not None and self.activation is F.relu:
            hidden = dropped_relu(masks, self.fc1(x), self.dropout.probability)
            return self.fc2(hidden, with_bias=False)
        hidden = drop(self.activation(self.fc1(x)), self.dropout.probability)
        return self.fc2(hidden, with_bias=masks is None)
