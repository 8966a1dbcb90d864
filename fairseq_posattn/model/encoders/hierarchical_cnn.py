"""``--encoder hierarchical_cnn``: convolutions upon convolutions (Gehring et al., 2017).

"Convolutional Sequence to Sequence Learning", section 3.2: gated linear units (Dauphin et al.,
2017) and a residual sum in each layer, an affine map before the first one and after the last. MTSA
(section 4) has three layers of 300 features and windows of 5 words; with the two maps a classifier
of pairs has its 3.4m parameters. The positions that Gehring adds to the words have no part in them.
"""

from argparse import Namespace
from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.cpu.dropout import drop
from fairseq_posattn.attention.disan import glorot_linear
from fairseq_posattn.model.encoders.cnn import convolution, parse_widths, same_length


class HierarchicalCNN(nn.Module):
    """Layers of ``x + a * sigmoid(b)``, where ``[a; b]`` is a convolution of x.

    Args:
        input_dim: features of the input.
        output_dim: C, features of the layers and of the result.
        widths: words that the convolution of each layer spans; beyond the sentence's ends there are
            zeros.
        dropout: probability of dropping a feature before each convolution and the last map.

    Attributes:
        output_dim: C.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        widths: Sequence[int] = (5, 5, 5),
        dropout: float = 0.0,
    ):
        super().__init__()
        self.input_map = glorot_linear(input_dim, output_dim)
        self.convolutions = nn.ModuleList(
            convolution(output_dim, 2 * output_dim, width) for width in widths
        )
        self.output_map = glorot_linear(output_dim, output_dim)
        self.dropout = dropout
        self.output_dim = output_dim

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, input_dim]`` to ``[B, T, C]``; ``key_padding_mask`` bool ``[B, T]``."""
        x = self.input_map(words).transpose(1, 2)  # [B, C, T]
        for layer in self.convolutions:
            if key_padding_mask is not None:
                x = x.masked_fill(key_padding_mask.unsqueeze(1), 0.0)
            seen = drop(x, self.dropout, self.training)
            x = x + F.glu(same_length(layer, seen), dim=1)
        return self.output_map(drop(x.transpose(1, 2), self.dropout, self.training))


def build(cfg: Namespace, dim: int) -> HierarchicalCNN:
    widths = parse_widths(cfg.cnn_widths)
    return HierarchicalCNN(dim, cfg.encoder_hidden_dim or dim, widths, cfg.dropout)
