"""From the vector of a sentence, or of a pair of them, to a score for each class."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.cpu.dropout import drop
from fairseq_posattn.attention.disan import glorot_linear
from fairseq_posattn.model.dropout import Dropout


def difference_and_product(first: Tensor, second: Tensor) -> Tensor:
    """``[a, b, a - b, a * b]`` (MTSA section 4.1): two ``[B, D]`` to ``[B, 4 D]``."""
    return torch.cat([first, second, first - second, first * second], dim=-1)


def distance_and_product(first: Tensor, second: Tensor) -> Tensor:
    """``[|a - b|, a * b]``, two ``[B, D]`` to ``[B, 2 D]``: the same, whichever comes first.

    Tai, Socher and Manning (2015), Improved semantic representations from tree-structured long
    short-term memory networks, eq. 15.
    """
    return torch.cat([(first - second).abs(), first * second], dim=-1)


# What the head sees of a pair, by the names that users type, and how many times the features of a
# sentence that is.
PAIR_FEATURES: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], int]] = {
    "difference": (difference_and_product, 4),
    "distance": (distance_and_product, 2),
}


class Highway(nn.Module):
    """``g * ELU(affine(x)) + (1 - g) * x``, ``g = sigmoid(affine(x))`` (Srivastava et al., 2015).

    Args:
        dim: features of input and output.
        activation: ELU, or another.
        map_dropout: probability of dropping a feature of x before either affine map, by itself;
            what is carried keeps all.
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
        """``[B, C]`` to ``[B, C]``."""
        gate = torch.sigmoid(self.gate(self._drop(x)))
        return gate * self.activation(self.map(self._drop(x))) + (1 - gate) * x

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.map_dropout, self.training)


class ClassificationHead(nn.Module):
    """Dropout, perhaps a layer and highway layers, and an affine map to the classes.

    Args:
        input_dim: features of what is classified.
        num_classes: scores to return.
        hidden_dim: features of the layer; 0 for none.
        highway_layers: after it.
        dropout: probability of dropping a feature, before each layer.
        activation: of the layer and the highway layers; ELU if none is given.
        drop_carried: whether what a highway layer carries is dropped from; otherwise only what its
            maps see.
        bias: whether the linear layer to the classes has one.
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
        """``[B, input_dim]`` to ``[B, num_classes]``."""
        scores: Tensor = self.layers(features)
        return scores
