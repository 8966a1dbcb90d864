"""Tensorized attention, TSA and MTSA.

Shen et al., 2019, "Tensorized Self-Attention: Efficiently Modeling Pairwise and Global
Dependencies" (MTSA), eq. 7 to 13, Algorithm 1 and appendix A. Every pair of tokens has a weight for
each feature, a token2token times a source2token weight. No tensor of that size is computed.
"""

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.types import Device
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.cpu import drop, matmul
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.headwise import HeadwiseFusionGate, map_to_heads
from fairseq_posattn.attention.masks import DistanceMask, MaskBank, check_mask, read_masks
from fairseq_posattn.attention.mechanism import LayerSizes, Mechanism, Shared, check_choice
from fairseq_posattn.attention.pytorch import log_sigmoid
from fairseq_posattn.attention.softmax import masked_softmax_attention, scaled_scores
from fairseq_posattn.attention.source2token import (
    SOURCES,
    SourceMaps,
    divide_or_zero,
    source2token_attention,
    source2token_weights,
)
from fairseq_posattn.common.flags import flag

# sigma_t and sigma_s of eq. 10 (appendix A.1).
SCALES: dict[str, Callable[[Tensor], Tensor]] = {
    "log_sigmoid": log_sigmoid,
    "identity": lambda scores: scores,
}

# Lower bound of a source2token weight. A query divides by the weights of the keys that it sees. If
# all are tiny beside that of a key it does not see, they must not vanish, nor gradients overflow.
SMALLEST_WEIGHT = 1e-26


def _check(impl: str, arguments: Arguments) -> str | None:
    check_mask(impl, arguments)
    for name in ("token_scale", "source_scale"):
        check_choice(name, arguments[name], SCALES)
    token_scale = arguments["token_scale"]
    if impl == "sdpa" and token_scale != "identity":
        return f"cannot do token_scale {token_scale!r}, only 'identity'"
    return None


@attention(sdpa=True, kernel="mtsa_triton:tensorized_attention_triton", causal=False, check=_check)
def tensorized_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    source_scores: Annotated[Tensor, "B H Tk Dv"],
    *,
    mask: Annotated[Tensor | DistanceMask | None, "~B H Tq Tk"] = None,
    token_scale: str = "log_sigmoid",
    source_scale: str = "identity",
    **options: Unpack[Options],
) -> Attended:
    """Attend with a weight for each pair of tokens and each feature (MTSA eq. 10 to 12).

    Feature l of query j's context is the mean of ``v_il`` over the keys i, with weights in
    proportion to ``exp(sigma_t(R_ij) + sigma_s(S_il) + M_ij)``, ``R = K Q' / sqrt(D)``. That is
    ``(V * exp(S)) E / (exp(S) E)``, ``E = exp(sigma_t(R) + M)`` (Algorithm 1): two matmuls. The
    sums of E and exp(S) over the keys cancel, so both are softmaxes here.

    The reference computes in float32 at least and bounds source2token weights from below by
    ``SMALLEST_WEIGHT``. Dropout drops pairs, from the numerator only (appendix A.3): E and exp(S)
    separately, each kept with the root of the probability. The weights are token2token's,
    normalized over the keys.

    Args:
        source_scores: S, each key's score for each feature.
        mask: M, float: 0, -inf or a penalty; or a function of the distance, which the kernels read
            faster.
        token_scale, source_scale: sigma_t and sigma_s, ``log_sigmoid`` or ``identity``. ``sdpa``
            needs ``token_scale="identity"``.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    mask = mask.matrix(wide) if isinstance(mask, DistanceMask) else mask
    call = replace(call, dropout_p=1 - (1 - call.dropout_p) ** 0.5)  # of pairs, and of sources

    # In float16, which autocast would use, most of the weights vanish.
    with torch.autocast(query.device.type, enabled=False):
        source = SCALES[source_scale](source_scores.to(wide))
        source = source2token_weights(source, call.key_padding_mask)  # [B, H, Tk, D]
        source = source.clamp(min=SMALLEST_WEIGHT)
        if call.impl == "sdpa":
            return source2token_attention(call, query, key, value, source, mask)

        scores = SCALES[token_scale](scaled_scores(query, key).to(wide))  # [B, H, Tq, Tk]
        undropped = replace(call, dropout_p=0.0, need_weights=True)
        denominator, weights = masked_softmax_attention(undropped, scores, source, mask)
        # [B, H, Tq, D], [B, H, Tq, Tk]
        kept, source = drop(weights, call.dropout_p), drop(source, call.dropout_p)
        numerator = matmul(kept, source * value)  # [B, H, Tq, D]
        context = divide_or_zero(numerator, denominator).to(value.dtype)
    return (context, weights.to(value.dtype)) if call.need_weights else context


NONE = "--mtsa-scores none"
UNREAD = ("--mtsa-source-layers 0", "--mtsa-scores token2token", NONE)


@dataclass
class Flags:
    mtsa_masks: str = flag(
        "past,future",
        "masks of the heads, see --attention-masks; 'none' for no masks",
        "mtsa",
        unread_with=(NONE,),
    )
    mtsa_include_self: bool = flag(
        False, "let a token attend to itself under every mask", "mtsa", unread_with=(NONE,)
    )
    mtsa_token_scale: str = flag(
        "log_sigmoid",
        "scale function of the token2token scores, sigma_t",
        "mtsa",
        choices=SCALES,
        unread_with=("--mtsa-scores source2token", NONE),
    )
    mtsa_source_scale: str = flag(
        "identity",
        "scale function of the source2token scores, sigma_s",
        "mtsa",
        choices=SCALES,
        unread_with=UNREAD,
    )
    mtsa_source: str = flag(
        "key",
        "input of source2token scores: a head's key or value, or the layer's input",
        "mtsa",
        choices=SOURCES,
        unread_with=UNREAD,
    )
    mtsa_source_layers: int = flag(
        2,
        "linear layers of the source2token scores, 1 or 2; 0 for no such scores",
        "mtsa",
        unread_with=UNREAD[1:],
    )
    mtsa_source_bias: float = flag(
        0.0,
        "initial value of the last source2token bias, which cancels where sigma_s is identity",
        "mtsa",
        unread_with=(*UNREAD, "--mtsa-source-scale identity"),
    )
    mtsa_divide_source: bool = flag(
        False,
        "divide source2token scores by the square root of a head's features",
        "mtsa",
        unread_with=UNREAD,
    )
    mtsa_fusion_gate: bool = flag(
        False, "mix a token's value and context with a gate", "mtsa", unread_with=(NONE,)
    )


class TensorizedAttention(Mechanism):
    """MTSA: tensorized attention in each head, under a positional mask per head.

    The defaults are the paper's: half of the heads see the past (its forward mask), half the future
    (its backward mask), none the query's own position; ``S = W2 relu(W1 k + b1) + b2`` (eq. 9).

    The published translation runs (Table 6) have ``masks=()``, ``token_scale="identity"``,
    ``source_scale="log_sigmoid"`` and ``source=SourceMaps("value", 1, divide=True)``. Setup 1 alone
    has ``bias=5.0``, which adds 0.2M parameters to the base Transformer's encoder. The published
    classification models have ``SourceMaps("value")`` and the fusion gate.

    Args:
        masks: see :meth:`~fairseq_posattn.attention.masks.MaskBank.for_heads`. Empty: all heads see
            all keys, where ``causal`` the past and self.
        include_self: a query sees its own position under any mask; default False.
        token_scale, source_scale: see :func:`tensorized_attention`.
        source: how S is computed.
        fusion_gate: gate between a query's value and its context; default False.
        map_dropout: probability of dropping an input feature of S and the gate, drawn per head.
        input_dim: features of the layer's input, from which S may be computed; default H D.
    """

    function = staticmethod(tensorized_attention)
    sizes = ("num_heads", "head_dim")
    flags = Flags

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
        input_dim: int | None = None,
        **shared: Unpack[Shared],
    ):
        super().__init__(**shared)
        _check("reference", {"token_scale": token_scale, "source_scale": source_scale})
        source.check(self.causal)
        if self.causal and not masks:
            masks, include_self = ("past",), True
        self.masks = MaskBank.for_heads(masks, num_heads, self.causal) if masks else None
        self.include_self, self.source, self.map_dropout = include_self, source, map_dropout
        self.token_scale, self.source_scale = token_scale, source_scale
        sizes = num_heads, head_dim, map_dropout
        layers = source.build_layers(*sizes, input_dim)
        self.source_hidden, self.source_input, self.source_output = layers
        self.fusion_gate = HeadwiseFusionGate(*sizes) if fusion_gate else None

    @classmethod
    def read_flags(
        cls, flags: Namespace, layer: LayerSizes, activation: Callable[[Tensor], Tensor] = F.relu
    ) -> dict[str, Any]:
        read = super().read_flags(flags, layer)
        heads = layer.num_heads, layer.causal
        text = read["masks"]
        masks = () if text == "none" else read_masks("--mtsa-masks", text, *heads)
        names = "source", "source_layers", "source_bias", "divide_source"
        of, layers, bias, divide = (read.pop(name) for name in names)
        source = SourceMaps(of, layers, bias, divide, activation)
        return {**read, "masks": masks, "source": source}

    def source_scores(self, key: Tensor, value: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Return S (eq. 9) of the keys, ``[B, H, Tk, D]``; ``hidden`` is their input."""
        if self.source_input is not None:
            assert hidden is not None
            heads, p = key.size(1), self.map_dropout
            scores: Tensor = map_to_heads(self.source_input, hidden, heads, p, self.drops)
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
        padding: Tensor | None = None,
        hidden: Tensor | None = None,
    ) -> Tensor:
        """Return source2token weights averaged over features: ``[B, H, Tk]`` (Figure 3, right)."""
        scores = SCALES[self.source_scale](self.source_scores(key, value, hidden))
        return source2token_weights(scores, padding).mean(-1)

    def mask(self, queries: int, keys: int, device: Device = None) -> DistanceMask | None:
        """Return each head's mask, or None if all heads see all keys."""
        if self.masks is None:
            return None
        mask = self.masks.of_distance(queries, keys, device=device)
        return mask.with_self() if self.include_self else mask

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        mask = self.mask(query.size(-2), key.size(-2), query.device)
        scales = {"token_scale": self.token_scale, "source_scale": self.source_scale}
        return {"source_scores": self.source_scores(key, value, hidden), "mask": mask, **scales}

    def finish(self, context: Tensor, value: Tensor) -> Tensor:
        if self.fusion_gate is None:
            return context
        result: Tensor = self.fusion_gate(value[:, :, -context.size(-2) :], context)
        return result
