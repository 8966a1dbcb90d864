"""DA's learned w and v, as numbers and as a picture (Wu et al., 2021, Figures 6 and 7)."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from fairseq_posattn.attention.da import DistanceAwareAttention
from fairseq_posattn.common.figures import COLORS, new_figure
from fairseq_posattn.inspection.attention_layers import AttentionLayer

# The second parameter of DA, by the mapping that has it.
SHIFTS = {"learnable_sigmoid": "v", "linear": "b"}
MEANINGS = {
    "w": "w: above 0, far tokens\ncount for more",
    "v": "v: the higher, the more\ndistance counts",
    "b": "b: the coefficient\nat distance 0",
}


def head_parameters(mechanism: DistanceAwareAttention) -> list[dict[str, float]]:
    """Return w of each head, and v (or b) if the mapping has it, by name."""
    parameters = {"w": mechanism.distance_weight.tolist()}
    if mechanism.sigmoid_shift is not None:
        parameters[SHIFTS[mechanism.mapping]] = mechanism.sigmoid_shift.tolist()
    heads = zip(*parameters.values(), strict=True)
    return [dict(zip(parameters, values, strict=True)) for values in heads]


def weight_numbers(*runs: Sequence[AttentionLayer]) -> dict[str, Any]:
    """Return DA's sorted numbers by sublayer, of several runs the means by ``rank``."""
    sublayers = []
    for same in zip(*runs, strict=True):
        learned = [head_parameters(layer.owner) for layer in same]
        parameters = {
            name: _sorted([[head[name] for head in heads] for heads in learned])
            for name in learned[0][0]
        }
        sublayers.append({**same[0].labels, "parameters": parameters})
    return {"sublayers": sublayers}


def layout(layers: Sequence[AttentionLayer]) -> list[Any]:
    """Return what must be equal in runs to be averaged: layers, heads and parameters."""
    return [(layer.labels, list(map(list, head_parameters(layer.owner)))) for layer in layers]


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
            title = f"layer {sublayer['layer']}, {sublayer['sublayer']}"
            axis.set_title(title, fontsize=9)
            axis.grid(axis="y", alpha=0.3)
        row_axes[0].set_ylabel(MEANINGS[name])
    return figure
