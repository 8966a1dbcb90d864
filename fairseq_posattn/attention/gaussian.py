"""Local attention with a learnable Gaussian bias: Local Transformer.

Yang et al., 2018, "Modeling Localness for Self-Attention Networks": each query predicts the
central position of its region and the region's width (query-specific window).
"""

from typing import Annotated

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.features import add_squares, attend_by_features
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.softmax import biased_attention

# In tokens. This window holds a single key; the bias of the nearest key is finite in float16.
NARROWEST_WINDOW = 0.01


@attention(sdpa=True, sdpa_on_cpu=True, causal=False)
def gaussian_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    center_logit: Annotated[Tensor, "B H Tq"],
    window_logit: Annotated[Tensor, "B H Tq"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(Q K' / sqrt(D) + G) V``, ``G[t, s] = -(s - P_t)^2 / (2 sigma_t^2)``.

    The central position is ``P_t = I sigmoid(p_t)`` and the deviation half of the window,
    ``sigma_t = I sigmoid(z_t) / 2``, for a sentence of I tokens at positions 1 to I. Padding on
    either side counts neither in I nor in the positions.

    Args:
        center_logit, window_logit: ``p`` and ``z``.
    """
    position, length = sentence_positions(key, call.key_padding_mask)
    center, deviation = find_regions(center_logit, window_logit, length)  # [B, H, Tq]
    if call.impl == "sdpa":
        middle = (length + 1).to(center) / 2  # smaller numbers have smaller squares
        from_middle = position - middle[:, None], center - middle[:, None, None]
        vectors = add_squares(query, key, *from_middle, deviation)
        if vectors is not None:
            return attend_by_features(call, *vectors, value)
    bias = gaussian_bias(position, center, deviation)
    return biased_attention(call, query, key, value, bias=bias)


def sentence_positions(key: Tensor, key_padding_mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return each key's position from 1, ``[B, Tk]``, and the sentence's length, 1 or more."""
    if key_padding_mask is None:
        key_padding_mask = torch.zeros(1, key.size(-2), dtype=torch.bool, device=key.device)
    position = (~key_padding_mask).cumsum(-1)
    return position, position[:, -1].clamp(min=1)


def find_regions(
    center_logit: Tensor, window_logit: Tensor, length: Tensor
) -> tuple[Tensor, Tensor]:
    """Return ``P`` and ``sigma`` in float32 at least; B of the length may be 1."""
    wide = torch.promote_types(center_logit.dtype, torch.float32)
    length = length[:, None, None]  # [B, 1, 1]
    window = length * torch.sigmoid(window_logit.to(wide))
    return length * torch.sigmoid(center_logit.to(wide)), window.clamp(min=NARROWEST_WINDOW) / 2


def gaussian_bias(position: Tensor, center: Tensor, deviation: Tensor) -> Tensor:
    """Return ``G``, ``[B, H, Tq, Tk]``; B of the position may be 1."""
    distance = position[:, None, None, :] - center[..., None]
    return distance.square() / (-2 * deviation.square()[..., None])


class GaussianAttention(Mechanism):
    """Local attention with the parameters that predict the central position and the window.

    ``p_t = U_p' tanh(W_p q_t)`` and ``z_t = U_d' tanh(W_p q_t)``, with ``W_p``, ``U_p`` and
    ``U_d`` for each head, which are initialized Xavier uniform.

    It has no causal form: position and window are fractions of the whole sentence's length.
    """

    function = staticmethod(gaussian_attention)
    sizes = ("embed_dim", "num_heads")

    def __init__(self, embed_dim: int, num_heads: int, **shared: Unpack[Shared]):
        super().__init__(**shared)
        if self.causal:
            known = "a decoder does not know the length of the whole sentence"
            where = "give it to --encoder-sublayers"
            raise ValueError(f"gaussian attention has no causal form: {known}; {where}")
        head_dim = embed_dim // num_heads
        self.query_weight = nn.Parameter(torch.empty(num_heads, head_dim, head_dim))  # W_p'
        self.center_weight = nn.Parameter(torch.empty(num_heads, head_dim, 1))  # U_p
        self.window_weight = nn.Parameter(torch.empty(num_heads, head_dim, 1))  # U_d
        for parameter in self.parameters():
            for matrix in parameter:
                nn.init.xavier_uniform_(matrix)

    def predict_region(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``p`` and ``z`` of the queries ``[B, H, Tq, D]``, each ``[B, H, Tq]``."""
        hidden = torch.tanh(torch.matmul(query, self.query_weight))  # [B, H, Tq, D]
        weights = torch.cat([self.center_weight, self.window_weight], dim=-1)  # [H, D, 2]
        center, window = torch.matmul(hidden, weights).unbind(-1)
        return center, window

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        center, window = self.predict_region(query)
        return {"center_logit": center, "window_logit": window}
