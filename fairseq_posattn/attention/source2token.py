"""Source2token attention: a weight for each position and feature, and pooling by it.

Multi-dimensional source2token self attention: Shen et al., 2018 (DiSAN), and 2019 (MTSA), section
2.2 B and eq. 9.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.call import Attended
from fairseq_posattn.attention.dropout import drop
from fairseq_posattn.attention.linear import Linear
from fairseq_posattn.attention.softmax import open_dead_rows


def source2token_weights(scores: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
    """Softmax over the positions, for each feature (MTSA section 2.2 B and eq. 9).

    Args:
        scores: ``[B, ..., T, C]``.
        key_padding_mask: bool ``[B, T]``, True where padded.

    Returns:
        ``[B, ..., T, C]``, float32 at least; zero where padded.
    """
    wide = torch.promote_types(scores.dtype, torch.float32)
    if key_padding_mask is None:
        return scores.softmax(dim=-2, dtype=wide)
    blocked, _ = open_dead_rows(key_padding_mask)
    blocked, padding = (
        mask.view(mask.size(0), *[1] * (scores.dim() - 3), -1, 1)
        for mask in (blocked, key_padding_mask)
    )
    weights = scores.masked_fill(blocked, float("-inf")).softmax(dim=-2, dtype=wide)
    return weights.masked_fill(padding, 0.0)


def source2token_pooling(
    hidden: Tensor,
    scores: Tensor,
    *,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = False,
) -> Attended:
    """One vector for a sentence: the mean over its positions, weighted for each feature.

    Multi-dimensional source2token self attention (MTSA section 2.2 B; DiSAN, Shen et al., 2018).

    Args:
        hidden: ``[B, T, C]``.
        scores: ``[B, T, C]``, each position's score for each feature.
        key_padding_mask: bool ``[B, T]``, True where padded.
        need_weights: also return the weights.

    Returns:
        ``[B, C]``, or ``([B, C], weights [B, T, C])``. A sentence of nothing but padding has zero.
    """
    weights = source2token_weights(scores, key_padding_mask)  # [B, T, C]
    pooled = (weights * hidden).sum(dim=1).to(hidden.dtype)  # [B, C]
    return (pooled, weights.to(hidden.dtype)) if need_weights else pooled


class Source2TokenPooling(nn.Module):
    """Source2token pooling whose scores are ``W2 elu(W1 x + b1) + b2``: 2 C^2 + 2 C parameters.

    Weights start as Glorot uniform, biases at zero (MTSA appendix B).

    Args:
        embed_dim: C.
        activation: between the maps; ELU as in DiSAN and in MTSA's model of SNLI.
        dropout: probability of dropping a feature before either map; what is weighed keeps all.
    """

    def __init__(
        self,
        embed_dim: int,
        activation: Callable[[Tensor], Tensor] = F.elu,
        dropout: float = 0.0,
    ):
        super().__init__()
        self.hidden = Linear(embed_dim, embed_dim)
        self.output = Linear(embed_dim, embed_dim)
        self.activation = activation
        self.dropout = dropout
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for linear in (self.hidden, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(
        self, hidden: Tensor, key_padding_mask: Tensor | None = None, need_weights: bool = False
    ) -> Attended:
        """``[B, T, C]`` to ``[B, C]``: see :func:`source2token_pooling`."""
        between = self.activation(self.hidden(self._drop(hidden)))  # [B, T, C]
        scores = self.output(self._drop(between))  # [B, T, C]
        return source2token_pooling(
            hidden, scores, key_padding_mask=key_padding_mask, need_weights=need_weights
        )

    def _drop(self, x: Tensor) -> Tensor:
        return drop(x, self.dropout, self.training)
