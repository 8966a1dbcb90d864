"""The positional part of a mechanism, which the page shows beside the attention of the words."""

from typing import Any

import torch
from torch import Tensor

import fairseq_posattn.attention as mechanisms
from fairseq_posattn.attention.dman import relative_bias_vector
from fairseq_posattn.attention.gaussian import find_regions, gaussian_bias, sentence_positions
from fairseq_posattn.attention.masks import MaskBank
from fairseq_posattn.inspection.attention_layers import AttentionCall, AttentionLayer
from fairseq_posattn.inspection.parameters import head_parameters

FURTHEST = 24  # tokens each way
BIASES = (
    mechanisms.LinearBiasAttention,
    mechanisms.BucketBiasAttention,
    mechanisms.KernelBiasAttention,
    mechanisms.FunctionalBiasAttention,
)


@torch.no_grad()
def of_layer(layer: AttentionLayer) -> dict[str, Any] | None:
    """Return a function of distance for each head, or None.

    ``lines`` have values from -N to N, null where the query does not see the key; if ``sigmoid``,
    of the query's term and these. Without lines, :func:`of_call` has values.
    """
    owner = layer.owner
    distances = torch.arange(-FURTHEST, FURTHEST + 1).abs()
    if isinstance(owner, mechanisms.DynamicMaskAttention):
        bias = relative_bias_vector(owner.distance_bias(), FURTHEST + 1, FURTHEST + 1)
        # P + U by the key's position less the query's; the bias has the opposite distances
        logits = bias.flip(0) + owner.head_bias[:, None]  # [H, 2N+1]
        title = "Dynamic mask M = sigmoid(h W + P + U)"
        about = "multiplies attention before normalization; differs for each word"
        return _plot(title, about, seen(logits, owner.causal), sigmoid=True)
    if isinstance(owner, mechanisms.DistanceAwareAttention):
        title = f"Learned function of distance, {owner.mapping.replace('_', ' ')}"
        about = f"adjustment: {owner.adjustment.replace('_', ' ')}"
        parameters = head_parameters(owner)
        learned = [", ".join(f"{name} = {head[name]:.2f}" for name in head) for head in parameters]
        lines = seen(owner.coefficients(distances), owner.causal)
        return _plot(title, about, lines) | {"parameters": learned}
    if isinstance(owner, mechanisms.StaticMaskAttention) and owner.radius is not None:
        reach = (distances <= owner.radius).float()[None]
        return _plot("Static mask", "the same for all heads", seen(reach, owner.causal))
    if isinstance(owner, BIASES):
        title = "Attention to equal words by distance, exp(bias)"
        return _plot(title, "relative to the word itself", equal_words(owner))
    if isinstance(owner, mechanisms.GaussianAttention):
        about = "around a position that each word predicts; multiplies attention"
        return _plot("Learned Gaussian, exp(G)", about, [])
    mask, length = None, FURTHEST + 1
    if isinstance(owner, mechanisms.TensorizedAttention):
        mask = owner.mask(length, length)
    elif isinstance(masks := getattr(owner, "masks", None), MaskBank):
        mask = masks.of_distance(length, length, device=torch.device("cpu"))
    if mask is not None:
        about = "multiplies attention before normalization: 0 hides a word"
        return _plot("Positional mask, exp(M)", about, mask.vector.flip(-1).exp().tolist())
    return None


def seen(lines: Tensor, causal: bool) -> list[list[Any]]:
    """Return ``[H, 2N+1]`` as lists; None for the keys after the query if it cannot see them."""
    middle = lines.size(1) // 2
    return [line[: middle + 1] + [None] * middle if causal else line for line in lines.tolist()]


def equal_words(owner: Any) -> list[Any]:
    """Return each head's attention to equal words around a word, relative to that to itself."""
    words = 2 * FURTHEST + 1
    hidden, vectors = torch.zeros(1, words, 1), torch.zeros(1, owner.num_heads, words, 2)
    weights = owner(hidden, *[vectors] * 3, need_weights=True)[1][0, :, FURTHEST]  # [H, words]
    return seen(weights / weights[:, FURTHEST, None], owner.causal)


def _plot(title: str, about: str, lines: list[Any], sigmoid: bool = False) -> dict[str, Any]:
    rounded = [[None if value is None else round(value, 3) for value in line] for line in lines]
    return {"title": title, "about": about, "lines": rounded, "sigmoid": sigmoid}


def of_call(call: AttentionCall) -> dict[str, Any]:
    """Return ``terms`` of queries, thousandths as ``factors`` or ``words``, or nothing."""
    owner = call.layer.owner
    if isinstance(owner, mechanisms.DynamicMaskAttention):
        terms = (call.args[0] @ owner.query_weight).flatten()  # h W of every query
        return {"terms": [round(term, 3) for term in terms.tolist()]}
    if isinstance(owner, mechanisms.TensorizedAttention) and owner.source.layers:
        hidden, _, key, value = call.args
        weights = owner.token_source_weights(key, value, hidden=hidden)  # [B, H, T]
        return {"words": thousandths(weights[0])}
    if isinstance(owner, mechanisms.GaussianAttention):
        _, query, key, _ = call.args
        position, length = sentence_positions(key, None)
        bias = gaussian_bias(position, *find_regions(*owner.predict_region(query), length))
        return {"factors": thousandths(bias[0].exp())}
    return {}


def thousandths(values: Tensor) -> list[Any]:
    """Return rounded thousandths, which are short in JSON."""
    return (values.float() * 1000).round().int().tolist()
