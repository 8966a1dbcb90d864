"""Attention of the Adapted Transformer, TENER.

Yan et al., 2019, "TENER: Adapting Transformer Encoder for Named Entity Recognition", eq. 16 to 19:
Transformer-XL's four terms, with the sinusoid of the signed distance itself in the place of a
learned projection of it, and without the division by ``sqrt(D)``.
"""

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.sinusoid import relative_sinusoids
from fairseq_posattn.attention.transformer_xl import relative_attention


def adapted_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    content_bias: Tensor,
    position_bias: Tensor,
    *,
    causal: bool = False,
    **options: Unpack[Options],
) -> Attended:
    """``softmax(A) V``, ``A[t, j] = q_t k_j + q_t R_{t-j} + u k_j + v R_{t-j}`` (eq. 18 and 19).

    Args:
        query: ``[B, H, Tq, D]``, the last Tq of the Tk positions.
        key, value: ``[B, H, Tk, D]``. The paper's key is the layer's input, split among the heads
            but not projected (eq. 16); this function takes any.
        content_bias: ``[H, D]``, ``u``.
        position_bias: ``[H, D]``, ``v``.
        causal: block the keys after each query.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto``,
            ``sdpa`` or ``reference``.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query whose every key
        is padded has context and weights zero.

    Raises:
        ValueError: as :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    return TENER(
        options,
        query=query,
        key=key,
        value=value,
        content_bias=content_bias,
        position_bias=position_bias,
        causal=causal,
    )


def _attend(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    content_bias: Tensor,
    position_bias: Tensor,
    causal: bool,
) -> Attended:
    query_length, key_length, features = query.size(-2), key.size(-2), query.size(-1)
    sinusoids = relative_sinusoids(  # [Tq+Tk-1, D], eq. 17
        query_length, key_length, features, device=query.device, dtype=query.dtype
    )
    biases = content_bias, position_bias
    return relative_attention(call, query, key, value, sinusoids, *biases, causal, scaled=False)


TENER = Attention(
    "TENER's attention",
    _attend,
    Shapes(
        query="B H Tq D",
        key="B H Tk D",
        value="B H Tk Dv",
        content_bias="H D",
        position_bias="H D",
        key_padding_mask="B Tk",
    ),
    implementations=("sdpa", "reference"),
)


class AdaptedAttention(Mechanism):
    """TENER's attention as a mechanism: it owns ``u`` and ``v``, which start as Xavier normal.

    Args:
        embed_dim: C, features of the layer's input.
        num_heads: H, which divides C.
        causal: whether queries are blocked from the keys after them.
        dropout: probability of dropping an attention weight while training.
        impl: see :func:`adapted_attention`.
    """

    attention = TENER
    projects_key = False  # eq. 16

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        super().__init__(causal, dropout, impl)
        self.content_bias = nn.Parameter(torch.empty(num_heads, embed_dim // num_heads))  # u
        self.position_bias = nn.Parameter(torch.empty(num_heads, embed_dim // num_heads))  # v
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_normal_(self.content_bias)
        nn.init.xavier_normal_(self.position_bias)

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
        """See :func:`adapted_attention`; ``hidden`` ``[B, Tq, C]`` is not looked at."""
        return adapted_attention(
            query,
            key,
            value,
            self.content_bias,
            self.position_bias,
            causal=self.causal,
            **self.options(key_padding_mask, need_weights),
        )
