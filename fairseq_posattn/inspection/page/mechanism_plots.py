"""Plots of a mechanism's positional part, independent of the tokens."""

import torch
from torch import Tensor

from fairseq_posattn.attention import (
    DistanceAwareAttention,
    DynamicMaskAttention,
    GaussianAttention,
    StaticMaskAttention,
    TensorizedAttention,
)
from fairseq_posattn.attention.gaussian import gaussian_bias, sentence_positions
from fairseq_posattn.inspection.collect import AttentionCall
from fairseq_posattn.inspection.distance_weights import learned_parameters
from fairseq_posattn.inspection.dynamic_mask import mask_logits, query_terms
from fairseq_posattn.inspection.page.places import Place

FURTHEST = 24  # tokens each way


@torch.no_grad()
def of_place(place: Place) -> dict | None:
    """Return a function of distance for each head, or None.

    Returns:
        None, or ``title``, ``about``, and ``lines``: of each head, its value at the key's position
        less the query's, from -N to N, null where the query does not see the key. Where ``sigmoid``
        is true, the value is the sigmoid of that and the query's term; where there are no lines,
        the values are of the sentence (both :func:`of_call`).
    """
    owner = place.owner
    if isinstance(owner, DynamicMaskAttention):
        lines = mask_logits(owner, FURTHEST)
        title = "Dynamic mask M = sigmoid(h W + P + U)"
        about = "by which attention is multiplied before it is normalised; each word has its own"
        return _own(title, about, _seen(lines, owner.causal), sigmoid=True)
    if isinstance(owner, DistanceAwareAttention):
        lines = owner.coefficients(torch.arange(-FURTHEST, FURTHEST + 1).abs())
        parameters = learned_parameters(owner)
        heads = [
            ", ".join(f"{name} = {values[head]:.2f}" for name, values in parameters.items())
            for head in range(len(lines))
        ]
        title = f"Learned function of distance, {owner.mapping.replace('_', ' ')}"
        about = f"adjustment: {owner.adjustment.replace('_', ' ')}"
        return _own(title, about, _seen(lines, owner.causal)) | {"parameters": heads}
    if isinstance(owner, StaticMaskAttention) and owner.radius is not None:
        reach = (torch.arange(-FURTHEST, FURTHEST + 1).abs() <= owner.radius).float()[None]
        return _own("Static mask", "the same for all heads", _seen(reach, owner.causal))
    if isinstance(owner, GaussianAttention):
        about = "around a place that each word predicts; attention is multiplied by it"
        return _own("Learned Gaussian, exp(G)", about, [])
    mask = _positional_mask(owner)
    if mask is not None:
        about = "by which attention is multiplied before it is normalised: 0 shuts a word out"
        return _own("Positional mask, exp(M)", about, mask.line.flip(-1).exp().tolist())
    return None


def _positional_mask(owner):
    length = FURTHEST + 1
    if isinstance(owner, TensorizedAttention):
        return owner.mask(length, length)
    masks = getattr(owner, "masks", None)
    return masks and masks.of_distance(length, length, device=torch.device("cpu"))


def _own(title, about, lines, sigmoid=False):
    rounded = [[None if one is None else round(one, 3) for one in line] for line in lines]
    return {"title": title, "about": about, "lines": rounded, "sigmoid": sigmoid}


def _seen(lines: Tensor, causal: bool) -> list[list]:
    listed = lines.tolist()
    return [line[: FURTHEST + 1] + [None] * FURTHEST for line in listed] if causal else listed


def of_call(place: Place, args: tuple, weights: Tensor) -> dict:
    """Return what a mechanism computes for this sentence besides weights.

    Args:
        args: what the module was given. weights: what it returned of them.

    Returns:
        nothing; or ``terms``, of each query; or ``factors``, of each head, query and key; or
        ``words``, a weight of each head and word. The last two are in thousandths.
    """
    owner = place.owner
    if isinstance(owner, DynamicMaskAttention):
        terms = query_terms(AttentionCall.of(owner, args, weights)).tolist()
        return {"terms": [round(term, 3) for term in terms]}
    if isinstance(owner, TensorizedAttention):
        call = AttentionCall.of(owner, args, weights)
        found = owner.token_source_weights(call.key, call.value, hidden=call.hidden)  # [1, H, T]
        return {"words": thousandths(found[0])}
    if isinstance(owner, GaussianAttention):
        _, query, key, _ = args
        bias = gaussian_bias(*owner.predict_region(query), *sentence_positions(key, None))
        return {"factors": thousandths(bias[0].exp())}
    return {}


def thousandths(values: Tensor) -> list:
    """Return rounded thousandths, which are short in JSON."""
    return (values.float() * 1000).round().int().tolist()
