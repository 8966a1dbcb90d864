"""Classification head: from the vector of a sentence or pair to logits."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.cpu.dropout import drop
from fairseq_posattn.attention.disan import glorot_linear
from fairseq_posattn.model.feed_forward import Dropout


def difference_and_product(first: Tensor, second: Tensor) -> Tensor:
    """Return ``[a, b, a - b, a * b]`` (MTSA section 4.1): two ``[B, D]`` to ``[B, 4 D]``."""
    return torch.cat([first, second, first - second, first * second], dim=-1)


def distance_and_product(first: Tensor, second: Tensor) -> Tensor:
    """Return the symmetric ``[|a - b|, a * b]``, two ``[B, D]`` to ``[B, 2 D]``.

    Tai, Socher and Manning (2015), Improved semantic representations from tree-structured long
    short-term memory networks, eq. 15.
    """
    return torch.cat([(first - second).abs(), first * second], dim=-1)


# Functions by the names of --pair-features, and their output features as a multiple of D.
PAIR_FEATURES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], int]] = {
    "difference": (difference_and_product, 4),
    "distance": (distance_and_product, 2),
}


class Highway(nn.Module):
    """Highway layer ``g * f(W x) + (1 - g) * x``, ``g = sigmoid(V x)`` (Srivastava et al., 2015).

    Args:
        dim: features of input and output.
        activation: f.
        map_dropout: probability of zeroing a feature of the input of W and of V, drawn separately.
    """

    def __init__(
        self, dim: int, activation: Callable[[Tensor], Tensor] = F.elu, map_dropout: float = 0.0
    ):
        super().__init__()
        self.activation = activation
        self.map_dropout = map_dropout
        self.map = glorot_linear(dim, dim)
        self.gate = glorot_linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        gate = torch.sigmoid(self.gate(self._drop(x)))
        return gate * self.activation(self.map(self._drop(x))) + (1 - gate) * x

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.map_dropout, self.training)


class ClassificationHead(nn.Module):
    """Optional hidden layer and highway layers, then a linear layer to the classes.

    Args:
        input_dim: features of the input.
        num_classes: number of logits.
        hidden_dim: features of the hidden layer; 0, the default, for none.
        highway_layers: number of highway layers after it; default 0.
        dropout: probability of zeroing a feature before each layer; default 0.
        activation: of hidden and highway layers, default ELU.
        drop_carried: drop features of a highway layer's whole input, not only of its linear ones.
        bias: whether the linear layer to the classes has a bias.
    """

    def __init__(
        self,
        input_dim: int,
        num_classes: int,
        hidden_dim: int = 0,
        highway_layers: int = 0,
        dropout: float = 0.0,
        activation: nn.Module | None = None,
        drop_carried: bool = True,
        bias: bool = True,
    ):
        super().__init__()
        activation = activation or nn.ELU()
        layers: list[nn.Module] = []
        if hidden_dim:
            layers += [Dropout(dropout), glorot_linear(input_dim, hidden_dim), activation]
        output_dim = hidden_dim or input_dim
        for _ in range(highway_layers):
            outer, inner = (dropout, 0.0) if drop_carried else (0.0, dropout)
            layers += [Dropout(outer), Highway(output_dim, activation, inner)]
        layers += [Dropout(dropout), glorot_linear(output_dim, num_classes, bias)]
        self.layers = nn.Sequential(*layers)

    def forward(self, features: Tensor) -> Tensor:
        """Map ``[B, input_dim]`` to logits ``[B, num_classes]``."""
        logits: Tensor = self.layers(features)
        return logits
