"""Tensorized attention, TSA and MTSA, and source2token pooling.

Shen et al., 2019, "Tensorized Self-Attention: Efficiently Modeling Pairwise and Global
Dependencies" (MTSA), eq. 7 to 13, Algorithm 1 and appendix A. Every pair of tokens has a weight for
each feature, the product of a token2token weight and a source2token weight; no tensor of that size
is ever made.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention.implementations import select_implementation
from fairseq_posattn.attention.kernels.support import dot_product_obstacle
from fairseq_posattn.attention.masked import masked_dot_product_attention
from fairseq_posattn.attention.masks import DistanceMask, MaskBank, masked_softmax_attention
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.san import dot_product_attention
from fairseq_posattn.attention.softmax import open_dead_rows, scaled_scores

# sigma_t and sigma_s of eq. 10 (appendix A.1).
SCALES = {"log_sigmoid": F.logsigmoid, "identity": lambda scores: scores}

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
    key_padding_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    training: bool = True,
    impl: str = "auto",
    need_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
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
        key_padding_mask: bool ``[B, Tk]``, True where padded.
        dropout_p: probability of dropping a weight of a pair, while ``training``. E and exp(S) are
            dropped apart, each with the square root of the probability of keeping, and only in the
            numerator (appendix A.3).
        impl: ``auto``, ``triton``, ``sdpa`` (``token_scale="identity"``: one call with doubled
            values; with dropout, which spares the denominator, two) or ``reference``.
        need_weights: also return the token2token weights, E divided by its sum over the keys.
            :func:`source2token_weights` of the source scores are the other half.

    Returns:
        context ``[B, H, Tq, D]``, or ``(context, weights [B, H, Tq, Tk])``. A query that may see no
        key has both zero. The reference works in float32 at least. A source2token weight below
        ``SMALLEST_WEIGHT`` counts as that, which shows only where a query sees nothing but such
        keys, with S lower by 60 or so than that of a key that it does not see: to it they are equal
        but for their token2token weights.

    Raises:
        ValueError: ``token_scale``, ``source_scale`` or ``impl`` is unknown, or ``impl`` cannot
            serve this call.
    """
    _check_choice("token_scale", token_scale, SCALES)
    _check_choice("source_scale", source_scale, SCALES)
    dropping = training and dropout_p > 0
    chosen = _select_implementation(impl, token_scale, query, key, value, mask, need_weights)
    if chosen == "triton":
        from fairseq_posattn.attention.kernels.mtsa import fused_tensorized_attention

        return fused_tensorized_attention(
            query,
            key,
            value,
            source_scores,
            mask=mask,
            token_scale=token_scale,
            source_scale=source_scale,
            key_padding_mask=key_padding_mask,
            dropout_p=dropout_p,
            training=training,
        )
    wide = torch.promote_types(query.dtype, torch.float32)
    mask = mask.matrix(wide) if isinstance(mask, DistanceMask) else mask
    masks = {"mask": mask, "key_padding_mask": key_padding_mask}
    p = 1 - (1 - dropout_p) ** 0.5 if dropping else 0.0

    # Autocast would take the weights to float16, where most of them vanish.
    with torch.autocast(query.device.type, enabled=False):
        source = SCALES[source_scale](source_scores.to(wide))
        source = source2token_weights(source, key_padding_mask)  # [B, H, Tk, D]
        source = source.clamp(min=SMALLEST_WEIGHT)
        if chosen == "sdpa":
            return _dot_product_form(query, key, value, source, p, **masks)

        scores = SCALES[token_scale](scaled_scores(query, key).to(wide))  # [B, H, Tq, Tk]
        denominator, weights = masked_softmax_attention(
            scores, source, need_weights=True, **masks
        )  # [B, H, Tq, D], [B, H, Tq, Tk]
        kept = weights
        if p > 0:
            kept, source = F.dropout(weights, p), F.dropout(source, p)
        numerator = torch.matmul(kept, source * value)  # [B, H, Tq, D]
        context = _divide(numerator, denominator).to(value.dtype)
    return (context, weights.to(value.dtype)) if need_weights else context


def _select_implementation(requested, token_scale, query, key, value, mask, need_weights):
    sdpa = triton = "cannot return weights" if need_weights else None
    if token_scale != "identity":
        sdpa = f"cannot do token_scale {token_scale!r}, only 'identity'"
    if isinstance(mask, Tensor) and mask.requires_grad:
        triton = "cannot differentiate the mask"
    obstacles = {
        "triton": triton
        or dot_product_obstacle("tensorized attention", requested, query, key, value),
        "sdpa": sdpa,
        "reference": None,
    }
    best_first = obstacles if query.device.type == "cuda" else dict(reversed(obstacles.items()))
    return select_implementation(requested, best_first)


def _dot_product_form(query, key, value, source, p, *, mask, key_padding_mask):
    """Dot-product attention to numerator and denominator, side by side as its values.

    Both are divided by the same sum over the keys. Where pairs are dropped, each with probability
    ``p``, the numerator, which loses them, and the denominator are an attention each.
    """
    # The weights fit the range of bfloat16, not that of float16.
    dtype = torch.float32 if query.dtype == torch.float16 else query.dtype

    def attend(values, dropout_p):
        tensors = (tensor.to(dtype) for tensor in (query, key, values))
        options = {"key_padding_mask": key_padding_mask, "dropout_p": dropout_p, "impl": "sdpa"}
        if mask is None:
            return dot_product_attention(*tensors, **options).to(source.dtype)
        return masked_dot_product_attention(*tensors, mask, **options).to(source.dtype)

    if p > 0:
        numerator = attend(F.dropout(source, p) * value, p)  # [B, H, Tq, D]
        denominator = attend(source, 0.0)
    else:
        both = torch.cat([source * value, source], dim=-1)  # [B, H, Tk, 2D]
        numerator, denominator = attend(both, 0.0).chunk(2, dim=-1)
    return _divide(numerator, denominator).to(value.dtype)


def _divide(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient; zero for a query that sees no key, whose numerator is zero as well."""
    return numerator / denominator.where(denominator > 0, 1.0)


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
) -> Tensor | tuple[Tensor, Tensor]:
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


def _check_choice(what: str, name: str, choices):
    if name not in choices:
        raise ValueError(f"unknown {what} {name!r}; choose one of: {', '.join(choices)}")


class HeadwiseLinear(nn.Module):
    """An affine map of its own for each head.

    Weights start as Glorot uniform.

    Args:
        num_heads: H.
        input_dim, output_dim: features of one head.
        bias: what the biases start at.
    """

    def __init__(self, num_heads: int, input_dim: int, output_dim: int, bias: float = 0.0):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, input_dim, output_dim))
        self.bias = nn.Parameter(torch.empty(num_heads, 1, output_dim))
        self.initial_bias = bias
        self.reset_parameters()

    def reset_parameters(self):
        for weight in self.weight:
            nn.init.xavier_uniform_(weight)
        nn.init.constant_(self.bias, self.initial_bias)

    def forward(self, x: Tensor) -> Tensor:
        """``[B, H, T, input_dim]`` to ``[B, H, T, output_dim]``."""
        return torch.einsum("bhti,hio->bhto", x, self.weight) + self.bias


class HeadwiseFusionGate(nn.Module):
    """``g * v + (1 - g) * context``, ``g = sigmoid(affine([v; context]))``, for each head.

    A part of the published classification models, which the paper does not mention.

    Args:
        num_heads: H.
        head_dim: D.
    """

    def __init__(self, num_heads: int, head_dim: int):
        super().__init__()
        self.gate = HeadwiseLinear(num_heads, 2 * head_dim, head_dim)

    def forward(self, value: Tensor, context: Tensor) -> Tensor:
        """Two ``[B, H, T, D]`` to one."""
        gate = self.gate(torch.cat([value, context], dim=-1)).sigmoid()  # [B, H, T, D]
        return gate * value + (1 - gate) * context


class TensorizedAttention(Mechanism):
    """MTSA: tensorized attention in each head, under a positional mask of the head's own.

    The defaults are the paper's: half of the heads see the past (its forward mask), half the future
    (its backward mask), none the query's own position; and ``S = W2 relu(W1 k + b1) + b2``, with
    maps of its own for each head (eq. 9).

    The published translation runs (Table 6) differ: ``masks=()``, ``token_scale="identity"``,
    ``source="value"``, ``source_layers=1``, ``source_bias=5.0``, ``divide_source=True`` and
    ``source_scale="log_sigmoid"``, which adds 0.2M parameters to the base Transformer's encoder.
    The published classification models have ``source="value"`` and the fusion gate.

    Args:
        num_heads: H.
        head_dim: D.
        masks: names, see :func:`fairseq_posattn.attention.masks.mask_by_name`. The heads are shared
            out among them in order: of two, the first half sees under the first. None of them: all
            heads see all.
        include_self: whether a query sees its own position under any mask.
        token_scale, source_scale: sigma_t and sigma_s, ``log_sigmoid`` or ``identity``.
        source: what S is made of: a head's ``key`` or ``value``, or the ``input`` of the layer, by
            one affine map for all heads, as in the published tagger.
        source_layers: 2 affine maps with the activation between, or 1; 0 for no source2token scores
            (Table 3, "w/o source2token"): what is left is dot-product attention, scaled and masked.
        source_bias: what the last bias of S starts at.
        divide_source: whether S is divided by sqrt(D), as R is.
        activation: sigma_m between the maps of S.
        fusion_gate: whether a gate chooses between a query's own value and its context.
        causal: whether queries are blocked from the keys after them. No mask may look ahead then;
            without masks, queries see themselves and what comes before.
        dropout: probability of dropping the weight of a pair while training.
        impl: see :func:`tensorized_attention`.

    Raises:
        ValueError: a name is unknown, the masks do not divide the heads, or one of them looks ahead
            where ``causal``.
    """

    def __init__(
        self,
        num_heads: int,
        head_dim: int,
        masks: Sequence[str] = ("past", "future"),
        include_self: bool = False,
        token_scale: str = "log_sigmoid",
        source_scale: str = "identity",
        source: str = "key",
        source_layers: int = 2,
        source_bias: float = 0.0,
        divide_source: bool = False,
        activation: Callable[[Tensor], Tensor] = F.relu,
        fusion_gate: bool = False,
        causal: bool = False,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        super().__init__(causal, dropout, impl)
        _check_choice("token_scale", token_scale, SCALES)
        _check_choice("source_scale", source_scale, SCALES)
        _check_choice("source", source, SOURCES)
        if source_layers not in (0, 1, 2):
            raise ValueError(f"source_layers {source_layers}: choose 0, 1 or 2")
        if source == "input" and (causal or source_layers != 1):
            raise ValueError(
                f"source 'input' takes one affine map, not {source_layers}, and is not causal"
            )
        if causal and not masks:
            masks, include_self = ("past",), True
        self.masks = MaskBank.for_heads(masks, num_heads, causal) if masks else None
        self.include_self = include_self
        self.token_scale = token_scale
        self.source_scale = source_scale
        self.source = source
        self.divide_source = divide_source
        self.activation = activation
        self.source_hidden = (
            HeadwiseLinear(num_heads, head_dim, head_dim) if source_layers == 2 else None
        )
        self.source_input = None
        self.source_output = (
            HeadwiseLinear(num_heads, head_dim, head_dim, bias=source_bias)
            if source_layers and source != "input"
            else None
        )
        if source == "input":
            self.source_input = nn.Linear(num_heads * head_dim, num_heads * head_dim)
            nn.init.xavier_uniform_(self.source_input.weight)
            nn.init.constant_(self.source_input.bias, source_bias)
        self.fusion_gate = HeadwiseFusionGate(num_heads, head_dim) if fusion_gate else None

    def source_scores(self, key: Tensor, value: Tensor, hidden: Tensor | None = None) -> Tensor:
        """S (eq. 9) of the keys: ``[B, H, Tk, D]``; ``hidden`` ``[B, Tk, H D]`` is the input."""
        if self.source_input is not None:
            scores = self.source_input(hidden).unflatten(-1, (key.size(1), -1)).transpose(1, 2)
            return scores * scores.size(-1) ** -0.5 if self.divide_source else scores
        scores = key if self.source == "key" else value
        if self.source_output is None:
            return torch.zeros_like(scores)
        if self.source_hidden is not None:
            scores = self.activation(self.source_hidden(scores))
        scores = self.source_output(scores)
        return scores * scores.size(-1) ** -0.5 if self.divide_source else scores

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

    def mask(self, query_length: int, key_length: int, device=None) -> DistanceMask | None:
        """What each head may see, or None for everything."""
        if self.masks is None:
            return None
        mask = self.masks.of_distance(query_length, key_length, device=device)
        return mask.with_self() if self.include_self else mask

    def forward(self, hidden, query, key, value, *, key_padding_mask=None, need_weights=False):
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
        context, weights = attended if need_weights else (attended, None)
        if self.fusion_gate is not None:
            context = self.fusion_gate(value[:, :, -query.size(-2) :], context)
        return (context, weights) if need_weights else context


class Source2TokenPooling(nn.Module):
    """Source2token pooling whose scores are ``W2 elu(W1 x + b1) + b2``: 2 C^2 + 2 C parameters.

    Weights start as Glorot uniform, biases at zero (MTSA appendix B).

    Args:
        embed_dim: C.
        activation: between the maps; ELU as in DiSAN and in MTSA's model of SNLI.
    """

    def __init__(self, embed_dim: int, activation: Callable[[Tensor], Tensor] = F.elu):
        super().__init__()
        self.hidden = nn.Linear(embed_dim, embed_dim)
        self.output = nn.Linear(embed_dim, embed_dim)
        self.activation = activation
        self.reset_parameters()

    def reset_parameters(self):
        for linear in (self.hidden, self.output):
            nn.init.xavier_uniform_(linear.weight)
            nn.init.zeros_(linear.bias)

    def forward(self, hidden: Tensor, key_padding_mask=None, need_weights: bool = False):
        """``[B, T, C]`` to ``[B, C]``: see :func:`source2token_pooling`."""
        scores = self.output(self.activation(self.hidden(hidden)))  # [B, T, C]
        return source2token_pooling(
            hidden, scores, key_padding_mask=key_padding_mask, need_weights=need_weights
        )
