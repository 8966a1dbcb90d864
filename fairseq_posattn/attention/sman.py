"""Mask attention under any mask, and the static mask attention network, SMAN.

Fan et al., 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer" (MANs), eq. 4 and
11, section 4.2.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.types import Device
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options, map_context
from fairseq_posattn.attention.distance import distance_matrix, signed_distances
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import biased_attention


def mask_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor,
    **options: Unpack[Options],
) -> Attended:
    """``M exp(Q K' / sqrt(D))``, normalised over the keys, times V (MANs eq. 4).

    Args:
        query: ``[B, H, Tq, D]``.
        key, value: ``[B, H, Tk, D]``.
        mask: in [0, 1], broadcastable to ``[B, H, Tq, Tk]``. Where it is 0 it is a constant: it
            passes no gradient to the mask.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto``,
            ``sdpa`` or ``reference``.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose mask is 0
        for every key has context and weights zero.

    Raises:
        ValueError: as :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    return MASK_ATTENTION(options, query=query, key=key, value=value, mask=mask)


def _attend(call: Call, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Attended:
    closed = mask <= 0
    log_mask = mask.masked_fill(closed, 1.0).log().to(query.dtype)
    if call.key_padding_mask is not None:
        closed = closed | call.key_padding_mask[:, None, None, :]
    return biased_attention(call, query, key, value, bias=log_mask, blocked=closed)


MASK_ATTENTION = Attention(
    "mask attention",
    _attend,
    Shapes(
        query="B H Tq D",
        key="B H Tk D",
        value="B H Tk Dv",
        mask="~B H Tq Tk",
        key_padding_mask="B Tk",
    ),
    implementations=("sdpa", "reference"),
)


def static_mask(
    query_length: int,
    key_length: int,
    radius: float | None,
    *,
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    device: Device = None,
) -> Tensor:
    """``SM[t, s]`` = 1 where ``|t-s| <= b``, else 0 (MANs eq. 11).

    Args:
        radius: b; or None for the b of SMAN1, read as the square root of L/2, L the number of keys
            that the query may see: the sentence's length, or where ``causal`` its length so far,
            which is all that is known of it while it is being written.
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        causal: block the keys after each query.

    Returns:
        float, broadcastable to ``[B, H, Tq, Tk]``.
    """
    distances = signed_distances(query_length, key_length, device)
    distances = distance_matrix(distances, query_length, key_length)[None, None]  # [1, 1, Tq, Tk]
    visible = distances >= 0 if causal else torch.ones_like(distances, dtype=torch.bool)
    if key_padding_mask is not None:
        visible = visible & ~key_padding_mask[:, None, None, :]
    reach = (visible.sum(-1, keepdim=True) / 2).sqrt() if radius is None else radius
    return (visible & (distances.abs() <= reach)).float()


class StaticMaskAttention(Mechanism):
    """SMAN: attention within a fixed distance, in DMAN's place (MANs section 4.2).

    Args:
        radius: b of eq. 11; None for SMAN1's, which grows with the sentence (:func:`static_mask`).
        causal: whether queries are blocked from the keys after them.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`mask_attention`.
        activation: of the context, the F of eq. 5; None for none.
    """

    attention = MASK_ATTENTION

    def __init__(
        self,
        radius: float | None = 4,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
        activation: Callable[[Tensor], Tensor] | None = F.relu,
    ):
        super().__init__(causal, dropout, impl)
        self.activation = activation
        self.radius = radius

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
        """See :func:`mask_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        mask = static_mask(
            query.size(-2),
            key.size(-2),
            self.radius,
            key_padding_mask=key_padding_mask,
            causal=self.causal,
            device=query.device,
        )
        attended = mask_attention(
            query,
            key,
            value,
            mask,
            **self.options(None, need_weights),  # the mask closes padding, too
        )
        return map_context(self.activation, attended)
