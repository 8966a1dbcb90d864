"""``--encoder cnn`` (Kim, 2014) and ``--encoder hierarchical_cnn`` (Gehring et al., 2017)."""

from argparse import Namespace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.cpu import drop
from fairseq_posattn.attention.headwise import glorot_linear


class NGramConvolutions(nn.Module):
    """Convolutions of several widths in tokens, concatenated: Multi-CNN in MTSA section 4.

    Each has an equal share of the ``output_dim`` features, the first ones a feature more if there
    is a rest. Tokens beyond the ends are zero.
    """

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        self.output_dim, widths = cfg.encoder_hidden_dim or dim, parse_widths(cfg.cnn_widths)
        self.convolutions = nn.ModuleList(
            build_convolution(dim, len(range(number, self.output_dim, len(widths))), width)
            for number, width in enumerate(widths)
        )

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        if key_padding_mask is not None:
            tokens = tokens.masked_fill(key_padding_mask.unsqueeze(-1), 0.0)
        tokens = tokens.transpose(1, 2)  # [B, C, T]
        features = torch.cat([convolve(layer, tokens) for layer in self.convolutions], dim=1)
        return F.relu(features).transpose(1, 2)


class HierarchicalCNN(nn.Module):
    """Residual convolutions with gated linear units: ``x + a * sigmoid(b)``, ``[a; b] = conv(x)``.

    Convolutional Sequence to Sequence Learning, section 3.2, with a linear layer before the first
    and after the last convolution, without positions. MTSA (section 4) has three layers of 300
    features and 5 tokens: with the linear layers a classifier of pairs has its 3.4m parameters.
    ``dropout`` acts before each convolution and the last layer. Tokens beyond the ends are zero.
    """

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        self.output_dim = output_dim = cfg.encoder_hidden_dim or dim
        self.input_map = glorot_linear(dim, output_dim)
        sizes, widths = (output_dim, 2 * output_dim), parse_widths(cfg.cnn_widths)
        self.convolutions = nn.ModuleList(build_convolution(*sizes, width) for width in widths)
        self.output_map = glorot_linear(output_dim, output_dim)
        self.dropout = cfg.dropout

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        x = self.input_map(tokens).transpose(1, 2)  # [B, C, T]
        for layer in self.convolutions:
            if key_padding_mask is not None:
                x = x.masked_fill(key_padding_mask.unsqueeze(1), 0.0)
            seen = drop(x, self.dropout, self.training)
            x = x + F.glu(convolve(layer, seen), dim=1)
        result: Tensor = self.output_map(drop(x.transpose(1, 2), self.dropout, self.training))
        return result


def build_convolution(input_dim: int, output_dim: int, width: int) -> nn.Conv1d:
    """Build a convolution with Xavier uniform weights and zero bias."""
    layer: Any = nn.Conv1d(input_dim, output_dim, width)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    result: nn.Conv1d = layer
    return result


def convolve(layer: Any, tokens: Tensor) -> Tensor:
    """Convolve ``[B, C, T]`` with zeros at both ends; an even width looks ahead one more token."""
    (width,) = layer.kernel_size
    result: Tensor = layer(F.pad(tokens, ((width - 1) // 2, width // 2)))
    return result


def parse_widths(text: str) -> list[int]:
    """Return the numbers of ``--cnn-widths``, each 1 or more."""
    widths = text.split(",")
    if not all(width.isdecimal() and int(width) > 0 for width in widths):
        raise ValueError(f"--cnn-widths {text}: give numbers of 1 or more, separated by commas")
    return [int(width) for width in widths]
