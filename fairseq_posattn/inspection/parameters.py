"""Learned parameters of DA and DMAN, as numbers and as pictures of them.

DA-Transformer (Wu et al., 2021): w and v (Figures 6 and 7, footnote 6), f (Figure 1) and its matrix
(Figure 2). DMAN (Fan et al., 2021, "Mask Attention Networks", eq. 12): ``sigmoid(h W + P + U)``.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from fairseq_posattn.attention.da import DistanceAwareAttention, rescaled_coefficients
from fairseq_posattn.attention.dman import MASK_FLOOR, DynamicMaskAttention, relative_bias_vector
from fairseq_posattn.common.figures import COLORS, line_style, new_figure
from fairseq_posattn.inspection.collect import AttentionCall, batches_of_one_length, measure_batch
from fairseq_posattn.inspection.places import Place

# The second parameter of DA, by the mapping that has one.
SHIFTS = {"learnable_sigmoid": "v", "linear": "b"}
MEANINGS = {
    "w": "w: above 0, far tokens\ncount for more",
    "v": "v: the higher, the more\ndistance counts",
    "b": "b: the coefficient\nat distance 0",
}
WEIGHTED_DISTANCES = torch.linspace(-10, 10, 101)  # the range of Figure 1
# Panels beside each other.
MOST_MATRICES, MOST_MASKS = 8, 3


def head_parameters(mechanism: DistanceAwareAttention) -> list[dict[str, float]]:
    """Return w of each head, and v (or b) if the mapping has one, by name."""
    parameters = {"w": mechanism.distance_weight.tolist()}
    if mechanism.sigmoid_shift is not None:
        parameters[SHIFTS[mechanism.mapping]] = mechanism.sigmoid_shift.tolist()
    heads = zip(*parameters.values(), strict=True)
    return [dict(zip(parameters, values, strict=True)) for values in heads]


def parameters_text(parameters: dict[str, float]) -> str:
    """Return a head's parameters as text, ``w = 0.50, v = -2.00``."""
    return ", ".join(f"{name} = {value:.2f}" for name, value in parameters.items())


def _title(sublayer: dict[str, Any]) -> str:
    return f"layer {sublayer['layer']}, {sublayer['sublayer']}"


def weight_numbers(*runs: Sequence[Place]) -> dict[str, Any]:
    """Return the learned numbers of DA's sublayers in a run, or their means over several.

    Each of ``sublayers`` has ``parameters`` by name: ``head`` and ``value``, by ascending value.
    Heads of several runs have no common order: there it is ``rank`` and the mean ``value``.
    """
    sublayers = []
    for same in zip(*runs, strict=True):
        learned = [head_parameters(place.owner) for place in same]
        parameters = {
            name: _sorted([[head[name] for head in heads] for heads in learned])
            for name in learned[0][0]
        }
        sublayers.append({**same[0].labels, "parameters": parameters})
    return {"sublayers": sublayers}


def layout(places: Sequence[Place]) -> list[Any]:
    """Return what must be equal in runs to be averaged: places, heads and parameters."""
    return [(place.labels, list(map(list, head_parameters(place.owner)))) for place in places]


def _sorted(runs: Sequence[Sequence[float]]) -> list[dict[str, Any]]:
    if len(runs) > 1:
        ranks = enumerate(zip(*map(sorted, runs), strict=True), start=1)
        return [{"rank": rank, "value": fmean(values)} for rank, values in ranks]
    heads = [{"head": head, "value": value} for head, value in enumerate(runs[0], start=1)]
    return sorted(heads, key=lambda head: head["value"])


def draw_weights(numbers: dict[str, Any]) -> Any:
    """Return a matplotlib figure of the result of :func:`weight_numbers`."""
    sublayers = numbers["sublayers"]
    names = list(sublayers[0]["parameters"])
    width = max(1.6, 0.25 * len(sublayers[0]["parameters"]["w"]))
    figure = new_figure(1.2 + width * len(sublayers), 2.2 * len(names))
    axes = figure.subplots(len(names), len(sublayers), sharey="row", squeeze=False)
    for name, row_axes in zip(names, axes, strict=True):
        for sublayer, axis in zip(sublayers, row_axes, strict=True):
            bars = sublayer["parameters"][name]
            values = [bar["value"] for bar in bars]
            colors = [COLORS[0] if value > 0 else COLORS[1] for value in values]
            axis.bar(range(len(bars)), values, color=colors)
            axis.axhline(0, color="black", linewidth=0.8)
            kind = "rank" if "rank" in bars[0] else "head"
            axis.set_xticks(range(len(bars)), [bar[kind] for bar in bars])
            axis.set_xlabel(f"{kind}, by {name}")
            axis.set_title(_title(sublayer), fontsize=9)
            axis.grid(axis="y", alpha=0.3)
        row_axes[0].set_ylabel(MEANINGS[name])
    return figure


@torch.no_grad()
def curve_numbers(places: Sequence[Place], furthest: int) -> dict[str, Any]:
    """Return f of each head of DA sublayers, up to the furthest distance in tokens.

    Each of ``sublayers`` has ``mapping``, ``adjustment`` and ``heads``, of each ``parameters``, and
    f at ``weighted_distances`` and at ``distances``: ``by_weighted_distance``, ``by_distance``.
    """
    distances = torch.arange(furthest + 1)
    sublayers = []
    for place in places:
        owner = place.owner
        by_weighted = _mapped(owner, WEIGHTED_DISTANCES).tolist()
        by_distance = owner.coefficients(distances).tolist()  # [H, N+1]
        heads = []
        for index, parameters in enumerate(head_parameters(owner)):
            curves = {"by_weighted_distance": by_weighted[index], "by_distance": by_distance[index]}
            heads.append({"head": index + 1, "parameters": parameters, **curves})
        kind = {"mapping": owner.mapping, "adjustment": owner.adjustment}
        sublayers.append({**place.labels, **kind, "heads": heads})
    return {
        "weighted_distances": WEIGHTED_DISTANCES.tolist(),
        "distances": distances.tolist(),
        "sublayers": sublayers,
    }


def _mapped(mechanism: DistanceAwareAttention, weighted: Tensor) -> Tensor:
    """Return f at weighted distances ``[X]`` of either sign: ``[H, X]``."""
    one = torch.ones_like(mechanism.distance_weight)
    negative, positive = (
        rescaled_coefficients(
            weighted.abs(),
            weight,
            mechanism.sigmoid_shift,
            mapping=mechanism.mapping,
            clip_threshold=mechanism.clip_threshold,
        )
        for weight in (-one, one)
    )
    return torch.where(weighted < 0, negative, positive)


def draw_curves(numbers: dict[str, Any]) -> Any:
    """Return a matplotlib figure of the result of :func:`curve_numbers`."""
    sublayers = numbers["sublayers"]
    legend_height = 0.16 * len(sublayers[0]["heads"])
    figure = new_figure(10, len(sublayers) * max(2.6, legend_height + 0.5))
    axes = figure.subplots(len(sublayers), 2, squeeze=False)
    for sublayer, (left, right) in zip(sublayers, axes, strict=True):
        for index, head in enumerate(sublayer["heads"]):
            style = line_style(index)
            label = f"head {head['head']}: {parameters_text(head['parameters'])}"
            left.plot(numbers["weighted_distances"], head["by_weighted_distance"], **style)
            right.plot(numbers["distances"], head["by_distance"], label=label, **style)
        for axis in (left, right):
            axis.set_title(_title(sublayer), fontsize=9)
            axis.set_ylabel("coefficient f")
            axis.grid(alpha=0.3)
        left.set_xlabel("weighted distance w·|t - s|")
        right.set_xlabel("distance |t - s| (tokens)")
        right.xaxis.get_major_locator().set_params(integer=True)
        right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7)
    return figure


@torch.no_grad()
def matrix_numbers(places: Sequence[Place], length: int) -> dict[str, Any]:
    """Return the coefficients of each head of DA sublayers in a sentence of T tokens.

    Each of ``sublayers`` has ``neutral``, the coefficient that changes nothing, and ``heads``, of
    each ``coefficients``, T rows of T, query by key, null where the query does not see the key.
    """
    position = torch.arange(length)
    distance = (position[:, None] - position).abs()
    sublayers = []
    for place in places:
        owner = place.owner
        matrices = owner.coefficients(position)[:, distance].tolist()  # [H, T, T]
        heads: list[dict[str, Any]] = []
        for parameters, rows in zip(head_parameters(owner), matrices, strict=True):
            if owner.causal:
                rows = [
                    row[: query + 1] + [None] * (length - query - 1)
                    for query, row in enumerate(rows)
                ]
            heads.append({"head": len(heads) + 1, "parameters": parameters, "coefficients": rows})
        neutral = 0.0 if owner.adjustment.endswith("add") else 1.0
        sublayers.append({**place.labels, "neutral": neutral, "heads": heads})
    return {"sublayers": sublayers}


def draw_matrices(numbers: dict[str, Any]) -> Any:
    """Return a matplotlib figure of the result of :func:`matrix_numbers`, white at ``neutral``."""
    from matplotlib.colors import TwoSlopeNorm

    sublayers = numbers["sublayers"]
    heads = len(sublayers[0]["heads"])
    rows_each = math.ceil(heads / MOST_MATRICES)
    columns = math.ceil(heads / rows_each)
    figure = new_figure(1.5 + 1.9 * columns, 2.5 * rows_each * len(sublayers))
    axes = figure.subplots(rows_each * len(sublayers), columns, squeeze=False)
    images = []
    for sublayer, of_sublayer in zip(sublayers, axes.reshape(len(sublayers), -1), strict=True):
        for axis in of_sublayer[heads:]:
            axis.set_axis_off()
        for head, axis in zip(sublayer["heads"], of_sublayer, strict=False):
            images.append(axis.imshow(numpy.array(head["coefficients"], dtype=float), cmap="PuOr"))
            title = f"layer {sublayer['layer']}, head {head['head']}"
            axis.set_title(f"{title}\n{parameters_text(head['parameters'])}", fontsize=8)
            axis.set_xlabel("key's position", fontsize=8)
            axis.set_ylabel("query's position", fontsize=8)
            axis.tick_params(labelsize=7)
            axis.locator_params(integer=True)
    neutral = sublayers[0]["neutral"]
    lowest = min(neutral - 1, *(image.get_array().min() for image in images))
    highest = max(neutral + 1, *(image.get_array().max() for image in images))
    for image in images:
        image.set_norm(TwoSlopeNorm(neutral, vmin=lowest, vmax=highest))
    bar = figure.colorbar(images[0], ax=axes, fraction=0.02, pad=0.01)
    bar.set_label(f"coefficient ({neutral:g}: no change)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure


def median_query_terms(
    encoder: nn.Module, places: Sequence[Place], sentences: Sequence[Tensor]
) -> list[float]:
    """Return the median of ``h W`` over all tokens, for each of DMAN's sublayers.

    The mask grows with this term, so at its median is the median of the mask.
    """
    terms = [
        measure_batch(encoder, places, batch, AttentionCall.query_terms)
        for batch in batches_of_one_length(sentences)
    ]
    return [torch.cat(each).median().item() for each in zip(*terms, strict=True)]


@torch.no_grad()
def mask_numbers(
    places: Sequence[Place], furthest: int, query_terms: Sequence[float] | None = None
) -> dict[str, Any]:
    """Return the mask of each head of DMAN sublayers, up to the furthest distance in tokens.

    Each of ``sublayers`` has ``query_term``, the given ``h W`` or 0, and ``heads``, of each its
    ``mask`` at ``positions`` of the key less the query's; null where a decoder's query sees no key.
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
    # The line's distances are the query's position less the key's.
    line = relative_bias_vector(mechanism.distance_bias(), furthest + 1, furthest + 1).flip(
        0
    )  # [2N+1]
    return line + mechanism.head_bias[:, None]


def seen(lines: Tensor, causal: bool) -> list[list[Any]]:
    """Return ``[H, 2N+1]`` as lists; None for the keys after the query if it cannot see them."""
    middle = lines.size(1) // 2
    return [line[: middle + 1] + [None] * middle if causal else line for line in lines.tolist()]


def draw_masks(numbers: dict[str, Any]) -> Any:
    """Return a matplotlib figure of the result of :func:`mask_numbers`."""
    sublayers = numbers["sublayers"]
    columns = min(len(sublayers), MOST_MASKS)
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
        axis.set_yscale("log")  # only ratios matter: weights are normalized under the mask
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.set_title(f"{_title(sublayer)}, {query}", fontsize=9)
        axis.set_xlabel("key's position - query's (tokens)")
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylim(top=1.2)  # of all, and last: the lower end then suits all
    for row_axes in axes:
        row_axes[0].set_ylabel("mask M (logarithmic)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    legend_columns = math.ceil(len(labels) / 16)
    figure.legend(handles, labels, loc="outside right center", fontsize=8, ncols=legend_columns)
    return figure
