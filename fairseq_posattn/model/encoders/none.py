"""``--encoder none``: the words as they are."""

from argparse import Namespace

from torch import Tensor, nn


class NoEncoder(nn.Module):
    """The words as they are.

    Args:
        dim: C, features of a word.

    Attributes:
        output_dim: C.
    """

    def __init__(self, dim: int):
        super().__init__()
        self.output_dim = dim

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, C]`` to the same."""
        return words


def build(cfg: Namespace, dim: int) -> NoEncoder:
    return NoEncoder(dim)
