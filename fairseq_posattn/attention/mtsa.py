"""Tensorized attention, TSA and MTSA.

Shen et al., 2019, "Tensorized Self-Attention: Efficiently Modeling Pairwise and Global
Dependencies" (MTSA), eq. 7 to 13, Algorithm 1 and appendix A. Every pair of tokens has a weight for
each feature, the product of a token2token weight and a source2token weight; no tensor of that size
is ever made.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.types import Device
from typing_extensions import Unpack

from fairseq_posattn.attention.call import (
    Arguments,
    Attended,
    Call,
    Options,
    context_of,
    map_context,
)
from fairseq_posattn.attention.choices import check_choice
from fairseq_posattn.attention.dropout import drop
from fairseq_posattn.attention.headwise import (
    HeadwiseFusionGate,
    HeadwiseLinear,
    map_to_heads,
)
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.linear import Linear
from fairseq_posattn.attention.masked import masked_dot_product_attention
from fairseq_posattn.attention.masks import DistanceMask, MaskBank, masked_softmax_attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.san import dot_product_attention
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import scaled_scores
from fairseq_posattn.attention.source2token import source2token_weights

# sigma_t and sigma_s of eq. 10 (appendix A.1).
SCALES: dict[str, Callable[[Tensor], Tensor]] = {
    "log_sigmoid": F.logsigmoid,
    "identity": lambda scores: scores,
}

# What S may be made of.
SOURCES = ("key", "value", "input")

# A source2token weight below this counts as this. A query may see only keys that are nothing beside
# one it does not see: their weights, by which it divides, must not vanish, nor the gradient, which
# holds the inverse, overflow.
SMALLEST_WEIGHT = 1e-26


def tensorized_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    *,
    mask: Tensor | DistanceMask | None = None,
    token_scale: str = "log_sigmoid",
    source_scale: str = "identity",
    **options: Unpack[Options],
) -> Attended:
    """Attention with a weight for each pair of tokens and each feature (MTSA eq. 10 to 12).

    Feature l of query j's context is the mean of ``v_il`` over the keys i, with weights in
    proportion to ``exp(sigma_t(R_ij) + sigma_s(S_il) + M_ij)``, ``R = K Q' / sqrt(D)``. That is
    ``(V * exp(S)) E / (exp(S) E)``, ``E = exp(sigma_t(R) + M)`` (Algorithm 1): two matrix products.
    What E and exp(S) sum to over the keys cancels, so both are softmaxes here.

    Args:
        query: ``[B, H, Tq, D]``.
        key, value: ``[B, H, Tk, D]``.
        source_scores: ``[B, H, Tk, D]``, S, each key's score for each feature.
        mask: M, float ``[H, Tq, Tk]`` or broadcastable to ``[B, H, Tq, Tk]``: 0, -inf or a penalty;
            or the function of the distance that it is, which the kernels read faster.
        token_scale, source_scale: sigma_t and sigma_s, ``log_sigmoid`` or ``identity``.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto``,
            ``triton``, ``sdpa`` (``token_scale="identity"``: one call with doubled values; with
            dropout, which spares the denominator, two) or ``reference``. What is dropped is a pair:
            E and exp(S) apart, each with the square root of the probability of keeping, and only in
            the numerator (appendix A.3). The weights are token2token's, E divided by its sum over
            the keys; ``source2token_weights`` of the source scores are the other half.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query that may see no
        key has both zero. The reference works in float32 at least. A source2token weight below
        ``SMALLEST_WEIGHT`` counts as that, which shows only where a query sees nothing but such
        keys, with S lower by 60 or so than that of a key that it does not see: to it they are equal
        but for their token2token weights.

    Raises:
        ValueError: ``token_scale`` or ``source_scale`` is unknown; and as
            :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    check_choice("token_scale", token_scale, SCALES)
    check_choice("source_scale", source_scale, SCALES)
    return MTSA(
        options,
        query=query,
        key=key,
        value=value,
        source_scores=source_scores,
        mask=mask,
        token_scale=token_scale,
        source_scale=source_scale,
    )


def _attend(
    call: Call,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source_scores: Tensor,
    mask: Tensor | DistanceMask | None,
    token_scale: str,
    source_scale: str,
) -> Attended:
    if call.impl == "triton":
        from fairseq_posattn.attention.kernels.mtsa_triton import tensorized_attention

        scales = {"token_scale": token_scale, "source_scale": source_scale}
        return tensorized_attention(call, query, key, value, source_scores, mask, **scales)
    wide = torch.promote_types(query.dtype, torch.float32)
    mask = mask.matrix(wide) if isinstance(mask, DistanceMask) else mask
    padding = call.key_padding_mask
    p = 1 - (1 - call.dropout_p) ** 0.5

    # Autocast would take the weights to float16, where most of them vanish.
    with torch.autocast(query.device.type, enabled=False):
        source = SCALES[source_scale](source_scores.to(wide))
        source = source2token_weights(source, padding)  # [B, H, Tk, D]
        source = source.clamp(min=SMALLEST_WEIGHT)
        if call.impl == "sdpa":
            return _dot_product_form(query, key, value, source, p, mask, padding)

        scores = SCALES[token_scale](scaled_scores(query, key).to(wide))  # [B, H, Tq, Tk]
        denominator, weights = masked_softmax_attention(
            scores, source, mask=mask, key_padding_mask=padding, need_weights=True
        )  # [B, H, Tq, D], [B, H, Tq, Tk]
        kept = weights
        if p > 0:
            kept, source = drop(weights, p), drop(source, p)
        numerator = torch.matmul(kept, source * value)  # [B, H, Tq, D]
        context = _divide(numerator, denominator).to(value.dtype)
    return (context, weights.to(value.dtype)) if call.need_weights else context


def _dot_product_form(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    source: Tensor,
    p: float,
    mask: Tensor | None,
    key_padding_mask: Tensor | None,
) -> Tensor:
    """Dot-product attention to numerator and denominator, side by side as its values.

    Both are divided by the same sum over the keys. Where pairs are dropped, each with probability
    ``p``, the numerator, which loses them, and the denominator are an attention each.
    """
    # The weights fit the range of bfloat16, not that of float16.
    dtype = torch.float32 if query.dtype == torch.float16 else query.dtype

    def attend(values: Tensor, dropout_p: float) -> Tensor:
        q, k, v = (tensor.to(dtype) for tensor in (query, key, values))
        options: Options = {
            "key_padding_mask": key_padding_mask,
            "dropout_p": dropout_p,
            "impl": "sdpa",
        }
        if mask is None:
            attended = dot_product_attention(q, k, v, **options)
        else:
            attended = masked_dot_product_attention(q, k, v, mask, **options)
        return context_of(attended).to(source.dtype)

    if p > 0:
        numerator = attend(drop(source, p) * value, p)  # [B, H, Tq, D]
        denominator = attend(source, 0.0)
    else:
        both = torch.cat([source * value, source], dim=-1)  # [B, H, Tk, 2D]
        numerator, denominator = attend(both, 0.0).chunk(2, dim=-1)
    return _divide(numerator, denominator).to(value.dtype)


def _divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient; zero for a query that sees no key, whose numerator is zero as well."""
    return numerator / denominator.where(denominator != 0, 1.0)


def _refuse(impl: str, arguments: Arguments) -> str | None:
    token_scale = arguments["token_scale"]
    if impl == "sdpa" and token_scale != "identity":
        return f"cannot do token_scale {token_scale!r}, only 'identity'"
    return None


MTSA = Attention(
    "tensorized attention",
    _attend,
    Shapes(
        query="B H Tq D",
        key="B H Tk D",
        value="B H Tk Dv",
        source_scores="B H Tk Dv",
        mask="~B H Tq Tk",
        key_padding_mask="B Tk",
    ),
    implementations=("triton", "sdpa", "reference"),
    refuse=_refuse,
)


@dataclass(frozen=True)
class SourceMaps:
    """How source2token scores, S, are made (eq. 9), by maps of its own for each head.

    Attributes:
        of: a head's ``key`` or ``value``, or the ``input`` of the layer, by one affine map for all
            heads, as in the published tagger.
        layers: 2 affine maps with the activation between, or 1; 0 for no source2token scores
            (Table 3, "w/o source2token"): what is left is dot-product attention, scaled and masked.
        bias: what the last bias starts at.
        divide: whether S is divided by sqrt(D), as R is.
        activation: sigma_m between the maps.
    """

    of: str = "key"
    layers: int = 2
    bias: float = 0.0
    divide: bool = False
    activation: Callable[[Tensor], Tensor] = F.relu


class TensorizedAttention(Mechanism):
    """MTSA: tensorized attention in each head, under a positional mask of the head's own.

    The defaults are the paper's: half of the heads see the past (its forward mask), half the future
    (its backward mask), none the query's own position; and ``S = W2 relu(W1 k + b1) + b2``, with
    maps of its own for each head (eq. 9).

    The published translation runs (Table 6) differ: ``masks=()``, ``token_scale="identity"``,
    ``source_scale="log_sigmoid"`` and ``source=SourceMaps("value", 1, divide=True)``, with
    ``bias=5.0`` in setup 1 alone, which adds 0.2M parameters to the base Transformer's encoder. The
    published classification models have ``SourceMaps("value")`` and the fusion gate.

    Args:
        num_heads: H.
        head_dim: D.
        masks: names, see :func:`fairseq_posattn.attention.masks.mask_by_name`. The heads are shared
            out among them in order: of two, the first half sees under the first. None of them: all
            heads see all.
        include_self: whether a query sees its own position under any mask.
        token_scale, source_scale: sigma_t and sigma_s, ``log_sigmoid`` or ``identity``.
        source: how S is made.
        fusion_gate: whether a gate chooses between a query's own value and its context.
        map_dropout: probability of dropping a feature before each map of S and before the gate, of
            every head by itself.
        shared: ``causal``, ``dropout`` and ``impl``, see
            :class:`~fairseq_posattn.attention.mechanism.Mechanism`. Where causal, no mask may look
            ahead; without masks, queries see themselves and what comes before.

    Raises:
        ValueError: a name is unknown, the masks do not divide the heads, or one of them looks ahead
            where ``causal``.
    """

    attention = MTSA

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        masks: Sequence[str] = ("past", "future"),
        include_self: bool = False,
        token_scale: str = "log_sigmoid",
        source_scale: str = "identity",
        source: SourceMaps = SourceMaps(),  # noqa: B008, it is frozen
        fusion_gate: bool = False,
        map_dropout: float = 0.0,
        **shared: Unpack[Shared],
    ):
        super().__init__(**shared)
        check_choice("token_scale", token_scale, SCALES)
        check_choice("source_scale", source_scale, SCALES)
        check_choice("source", source.of, SOURCES)
        if source.layers not in (0, 1, 2):
            raise ValueError(f"{source.layers} maps of the source: choose 0, 1 or 2")
        by_input = source.of == "input" and source.layers > 0
        if by_input and (self.causal or source.layers != 1):
            raise ValueError(
                f"source 'input' takes one affine map, not {source.layers}, and is not causal"
            )
        if self.causal and not masks:
            masks, include_self = ("past",), True
        self.masks = MaskBank.for_heads(masks, num_heads, self.causal) if masks else None
        self.include_self = include_self
        self.token_scale = token_scale
        self.source_scale = source_scale
        self.source = source
        self.map_dropout = map_dropout
        self.source_hidden = (
            HeadwiseLinear(num_heads, head_dim, head_dim, dropout=map_dropout)
            if source.layers == 2
            else None
        )
        self.source_input = self.source_output = None
        if by_input:
            self.source_input = Linear(num_heads * head_dim, num_heads * head_dim)
            nn.init.xavier_uniform_(self.source_input.weight)
            nn.init.constant_(self.source_input.bias, source.bias)
        elif source.layers:
            self.source_output = HeadwiseLinear(
                num_heads, head_dim, head_dim, bias=source.bias, dropout=map_dropout
            )
        self.fusion_gate = (
            HeadwiseFusionGate(num_heads, head_dim, map_dropout) if fusion_gate else None
        )

    def source_scores(self, key: Tensor, value: Tensor, hidden: Tensor | None = None) -> Tensor:
        """S (eq. 9) of the keys: ``[B, H, Tk, D]``; ``hidden`` ``[B, Tk, H D]`` is the input."""
        if self.source_input is not None:
            assert hidden is not None
            heads, p = key.size(1), self.map_dropout
            scores: Tensor = map_to_heads(self.source_input, hidden, heads, p, self.training)
        elif self.source_output is not None:
            scores = key if self.source.of == "key" else value
            if self.source_hidden is not None:
                scores = self.source.activation(self.source_hidden(scores))
            scores = self.source_output(scores)
        else:
            return torch.zeros_like(key)
        return scores * scores.size(-1) ** -0.5 if self.source.divide else scores

    def token_source_weights(
        self,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        hidden: Tensor | None = None,
    ) -> Tensor:
        """The source2token weights of the tokens, averaged over the features (Figure 3, right).

        Returns:
            ``[B, H, Tk]``; over the positions they sum to 1.
        """
        scores = SCALES[self.source_scale](self.source_scores(key, value, hidden))
        return source2token_weights(scores, key_padding_mask).mean(-1)

    def mask(
        self, query_length: int, key_length: int, device: Device = None
    ) -> DistanceMask | None:
        """What each head may see, or None for everything."""
        if self.masks is None:
            return None
        mask = self.masks.of_distance(query_length, key_length, device=device)
        return mask.with_self() if self.include_self else mask

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
        """See :func:`tensorized_attention`; ``hidden`` ``[B, Tq, C]`` is the layer's input."""
        attended = tensorized_attention(
            query,
            key,
            value,
            self.source_scores(key, value, hidden),
            mask=self.mask(query.size(-2), key.size(-2), query.device),
            token_scale=self.token_scale,
            source_scale=self.source_scale,
            **self.options(key_padding_mask, need_weights),
        )
        if self.fusion_gate is None:
            return attended
        return map_context(partial(self.fusion_gate, value[:, :, -query.size(-2) :]), attended)
