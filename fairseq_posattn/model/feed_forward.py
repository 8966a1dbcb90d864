"""The feed-forward sublayer (MANs eq. 3 and 9: the mask attention whose mask is the identity)."""

from torch import Tensor, nn

from fairseq_posattn.attention.cpu.linear import Linear
from fairseq_posattn.model.activations import ACTIVATIONS
from fairseq_posattn.model.dropout import Dropout


class FeedForward(nn.Module):
    """Two affine maps with an activation between, at each position.

    Args:
        embed_dim: features of input and output.
        inner_dim: features between the maps.
        activation: a name of :data:`~fairseq_posattn.model.activations.ACTIVATIONS`.
        dropout: probability of dropping a feature after the activation.
    """

    def __init__(self, embed_dim: int, inner_dim: int, activation: str, dropout: float):
        super().__init__()
        self.fc1 = Linear(embed_dim, inner_dim)
        self.activation = ACTIVATIONS[activation]
        self.dropout = Dropout(dropout, type(self).__name__)
        self.fc2 = Linear(inner_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        """``[T, B, C]`` to ``[T, B, C]``."""
        output: Tensor = self.fc2(self.dropout(self.activation(self.fc1(x))))
        return output
