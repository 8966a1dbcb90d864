"""DMAN's learned mask as a function of the key's position relative to the query.

Fan et al., 2021, "Mask Attention Networks", eq. 12: ``M = sigmoid(h W + P + U)``. Its first term
depends on the query; given sentences, the mask is that of their median query.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fairseq_posattn.attention import DynamicMaskAttention
from fairseq_posattn.attention.dman import MASK_FLOOR, distance_line
from fairseq_posattn.common.figures import line_style, new_figure
from fairseq_posattn.inspection.collect import AttentionCall, collect
from fairseq_posattn.inspection.places import Place

MOST_COLUMNS = 3


def median_query_terms(
    encoder: nn.Module, places: Sequence[Place], sentences: Sequence[Tensor]
) -> list[float]:
    """Return the median of ``h W`` over all tokens, for each of DMAN's sublayers.

    The mask grows with this term, so at its median is the median of the mask.
    """
    batches = [terms for _, terms in collect(encoder, places, sentences, AttentionCall.query_terms)]
    return [torch.cat(terms).median().item() for terms in zip(*batches, strict=True)]


@torch.no_grad()
def mask_numbers(
    places: Sequence[Place],
    furthest: int,
    query_terms: Sequence[float] | None = None,
) -> dict:
    """Return the mask of each head of DMAN sublayers.

    Args:
        places: the sublayers.
        furthest: largest distance, in tokens.
        query_terms: ``h W`` of a query for each sublayer; None for zeros.

    Returns:
        ``positions`` of the key, less the query's; ``median_query``, whether the terms were given;
        and ``sublayers``, of each ``layer``, ``sublayer``, ``query_term``, and ``heads``, of each
        ``head``, and its ``mask`` at these positions: null where a decoder's query sees no key.
    """
    sublayers = []
    for place, term in zip(places, query_terms or [0.0] * len(places), strict=True):
        logits = term + mask_logits(place.owner, furthest)  # [H, 2N+1]
        masks = seen(logits.sigmoid().clamp(min=MASK_FLOOR), place.owner.causal)
        heads = [{"head": head, "mask": mask} for head, mask in enumerate(masks, start=1)]
        sublayers.append({**place.labels, "query_term": term, "heads": heads})
    return {
        "positions": list(range(-furthest, furthest + 1)),
        "median_query": query_terms is not None,
        "sublayers": sublayers,
    }


def mask_logits(mechanism: DynamicMaskAttention, furthest: int) -> Tensor:
    """Return ``P + U`` of each head by distance (key minus query), ``[H, 2N+1]``."""
    length = furthest + 1
    # Distances ascend from the query's position less the key's; positions, the other way about.
    line = distance_line(mechanism.distance_bias(), length, length).flip(0)  # [2N+1]
    return line + mechanism.head_bias[:, None]


def seen(lines: Tensor, causal: bool) -> list[list]:
    """Return ``[H, 2N+1]`` as lists; None for the keys after the query if it cannot see them."""
    middle = lines.size(1) // 2
    hidden = [None] * middle
    return [line[: middle + 1] + hidden if causal else line for line in lines.tolist()]


def draw_masks(numbers: dict):
    """Return a matplotlib figure of the result of :func:`mask_numbers`."""
    sublayers = numbers["sublayers"]
    columns = min(len(sublayers), MOST_COLUMNS)
    rows = math.ceil(len(sublayers) / columns)
    figure = new_figure(1.6 + 3.8 * columns, 3.0 * rows)
    axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for axis in axes.flat[len(sublayers) :]:
        axis.set_axis_off()
    query = "median query" if numbers["median_query"] else "position terms only"
    for sublayer, axis in zip(sublayers, axes.flat, strict=False):
        for index, head in enumerate(sublayer["heads"]):
            mask = [math.nan if value is None else value for value in head["mask"]]
            style = {"marker": ".", "markersize": 4, "linewidth": 1, **line_style(index)}
            axis.plot(numbers["positions"], mask, label=f"head {head['head']}", **style)
        axis.axvline(0, color="grey", linewidth=0.8)
        axis.set_yscale("log")  # only ratios matter: weights are normalised under the mask
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_title(f"layer {sublayer['layer']}, {sublayer['sublayer']}, {query}", fontsize=9)
        axis.set_xlabel("key's position - query's (tokens)")
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylim(top=1.2)  # of all, and last: the lower end then suits all
    for row_axes in axes:
        row_axes[0].set_ylabel("mask M (logarithmic)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    legend_columns = math.ceil(len(labels) / 16)
    figure.legend(handles, labels, loc="outside right center", fontsize=8, ncols=legend_columns)
    return figure
