"""Activations, dropout and the feed-forward sublayer."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import Linear, drop


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

    ``--retain-dropout-modules`` selects it by the class name ``owner``.
    """

    def __init__(self, p: float, owner: str = ""):
        super().__init__(p)
        self.owner = owner
        self.retained = False

    def forward(self, x: Tensor) -> Tensor:
        return drop(x, self.p, self.training or self.retained)

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

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(self.dropout(self.activation(self.fc1(x))))
