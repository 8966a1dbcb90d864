"""Local attention with a learnable Gaussian bias: Local Transformer.

Yang et al., 2018, "Modeling Localness for Self-Attention Networks": the form in which each query
predicts both the central position of its region and the region's width (query-specific window).
"""

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options
from fairseq_posattn.attention.distance import blocked_keys
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import biased_attention

# In tokens. A window this narrow already holds a single key, and the bias of the nearest key is
# still finite in float16.
NARROWEST_WINDOW = 0.01


def gaussian_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    center_logit: Tensor,
    window_logit: Tensor,
    **options: Unpack[Options],
) -> Attended:
    """``softmax(Q K' / sqrt(D) + G) V``, ``G[t, s] = -(s - P_t)^2 / (2 sigma_t^2)``.

    The central position is ``P_t = I sigmoid(p_t)`` and the deviation half of the window,
    ``sigma_t = I sigmoid(z_t) / 2``, for a sentence of I tokens at positions 1 to I.

    Args:
        query: ``[B, H, Tq, D]``.
        key, value: ``[B, H, Tk, D]``.
        center_logit: ``[B, H, Tq]``, ``p``.
        window_logit: ``[B, H, Tq]``, ``z``.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto``,
            ``sdpa`` or ``reference``. Padding, on whichever side, counts neither in I nor in the
            positions.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero.

    Raises:
        ValueError: as :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    return GAUSSIAN(
        options,
        query=query,
        key=key,
        value=value,
        center_logit=center_logit,
        window_logit=window_logit,
    )


def _attend(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    center_logit: Tensor,
    window_logit: Tensor,
) -> Attended:
    padding = call.key_padding_mask
    blocked = blocked_keys(query.size(-2), key.size(-2), padding, device=query.device)
    position, length = sentence_positions(key, padding)
    bias = gaussian_bias(center_logit, window_logit, position, length)  # [B, H, Tq, Tk]
    return biased_attention(call, query, key, value, bias=bias, blocked=blocked)


GAUSSIAN = Attention(
    "gaussian attention",
    _attend,
    Shapes(
        query="B H Tq D",
        key="B H Tk D",
        value="B H Tk Dv",
        center_logit="B H Tq",
        window_logit="B H Tq",
        key_padding_mask="B Tk",
    ),
    implementations=("sdpa", "reference"),
)


def sentence_positions(key: Tensor, key_padding_mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Each key's position in its sentence, from 1: ``[B, Tk]``; and the sentence's length, ``[B]``.

    The length of a sentence that is all padding is given as 1.
    """
    if key_padding_mask is None:
        key_padding_mask = torch.zeros(1, key.size(-2), dtype=torch.bool, device=key.device)
    position = (~key_padding_mask).cumsum(-1)
    return position, position[:, -1].clamp(min=1)


def gaussian_bias(
    center_logit: Tensor, window_logit: Tensor, position: Tensor, length: Tensor
) -> Tensor:
    """``G``, in float32 at least.

    Args:
        center_logit, window_logit: ``[B, H, Tq]``, ``p`` and ``z``.
        position: ``[B, Tk]``, of the keys, or ``[1, Tk]``.
        length: ``[B]`` or ``[1]``, I.

    Returns:
        ``[B, H, Tq, Tk]``.
    """
    wide = torch.promote_types(center_logit.dtype, torch.float32)
    length = length[:, None, None]  # [B, 1, 1]
    center = length * torch.sigmoid(center_logit.to(wide))  # [B, H, Tq]
    window = length * torch.sigmoid(window_logit.to(wide))  # [B, H, Tq]
    deviation = window.clamp(min=NARROWEST_WINDOW) / 2
    distance = position[:, None, None, :] - center[..., None]  # [B, H, Tq, Tk]
    return distance.square() / (-2 * deviation.square()[..., None])


class GaussianAttention(Mechanism):
    """Local attention as a mechanism: it owns what predicts the central position and the window.

    ``p_t = U_p' tanh(W_p q_t)`` and ``z_t = U_d' tanh(W_p q_t)``, where every head has its own
    ``W_p``, ``U_p`` and ``U_d``. They start as Xavier uniform.

    Args:
        embed_dim: C, features of the layer's input.
        num_heads: H, which divides C.
        causal: must be False: position and window are shares of the whole sentence's length, which
            a decoder does not know.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`gaussian_attention`.

    Raises:
        ValueError: ``causal`` is True.
    """

    attention = GAUSSIAN

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        if causal:
            raise ValueError(
                "gaussian attention has no causal form: it needs the length of the whole sentence, "
                "which a decoder does not know"
            )
        super().__init__(causal, dropout, impl)
        head_dim = embed_dim // num_heads
        self.query_weight = nn.Parameter(torch.empty(num_heads, head_dim, head_dim))  # W_p'
        self.center_weight = nn.Parameter(torch.empty(num_heads, head_dim, 1))  # U_p
        self.window_weight = nn.Parameter(torch.empty(num_heads, head_dim, 1))  # U_d
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for parameter in self.parameters():
            for matrix in parameter:
                nn.init.xavier_uniform_(matrix)

    def predict_region(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """The logits ``p`` and ``z`` of each query ``[B, H, Tq, D]``: twice ``[B, H, Tq]``."""
        hidden = torch.tanh(torch.matmul(query, self.query_weight))  # [B, H, Tq, D]
        weights = torch.cat([self.center_weight, self.window_weight], dim=-1)  # [H, D, 2]
        center, window = torch.matmul(hidden, weights).unbind(-1)
        return center, window

    def forward(
        self,
        hidden: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Attended:
        """See :func:`gaussian_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        return gaussian_attention(
            query,
            key,
            value,
            *self.predict_region(query),
            **self.options(key_padding_mask, need_weights),
        )
