"""``--encoder cnn``: convolutions over n-grams (Kim, 2014; Multi-CNN in MTSA section 4)."""

from argparse import Namespace
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class NGramConvolutions(nn.Module):
    """A convolution for each n, over the n words around a position, their features side by side.

    Args:
        input_dim: features of the input.
        output_dim: features of the result, equally many of each convolution.
        widths: n of each; words beyond the sentence's ends are zero.

    Attributes:
        output_dim: as given.

    Raises:
        ValueError: the features cannot be shared out evenly.
    """

    def __init__(self, input_dim: int, output_dim: int, widths: Sequence[int] = (3, 4, 5)):
        super().__init__()
        if output_dim % len(widths):
            raise ValueError(
                f"{output_dim} features cannot be shared out evenly among "
                f"{len(widths)} convolutions"
            )
        features = output_dim // len(widths)
        self.convolutions = nn.ModuleList(
            convolution(input_dim, features, width) for width in widths
        )
        self.output_dim = output_dim

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, input_dim]`` to ``[B, T, output_dim]``; ``key_padding_mask`` bool ``[B, T]``."""
        if key_padding_mask is not None:
            words = words.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
        words = words.transpose(1, 2)  # [B, C, T]
        features = torch.cat([same_length(conv, words) for conv in self.convolutions], dim=1)
        return F.relu(features).transpose(1, 2)


def convolution(input_dim: int, output_dim: int, width: int) -> nn.Conv1d:
    """A convolution that starts as Xavier uniform, its bias at zero."""
    layer = nn.Conv1d(input_dim, output_dim, width)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def same_length(layer: nn.Conv1d, words: Tensor) -> Tensor:
    """Convolve ``[B, C, T]`` with zeros around it, so that T stays: an even n looks ahead more."""
    (width,) = layer.kernel_size
    return layer(F.pad(words, ((width - 1) // 2, width // 2)))


def parse_widths(text: str) -> list[int]:
    """The numbers of ``--cnn-widths``.

    Raises:
        ValueError: they are none.
    """
    widths = text.split(",")
    if not all(width.isdecimal() and int(width) > 0 for width in widths):
        raise ValueError(f"--cnn-widths {text}: give numbers with commas between")
    return [int(width) for width in widths]


def build(cfg: Namespace, dim: int) -> NGramConvolutions:
    widths = parse_widths(cfg.cnn_widths)
    return NGramConvolutions(dim, cfg.encoder_hidden_dim or dim, widths)
