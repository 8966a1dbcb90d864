"""The w and v that the heads of DA have learned, sorted.

DA-Transformer (Wu et al., 2021), Figures 6 and 7: sorted values, averaged over five runs
(footnote 6).
"""

from collections.abc import Sequence
from statistics import fmean

from fairseq_posattn.attention import DistanceAwareAttention
from fairseq_posattn.common.figures import COLOURS, new_figure
from fairseq_posattn.inspection.sublayers import AttentionSublayer

# The second parameter, by the mapping that has one.
SHIFTS = {"learnable_sigmoid": "v", "linear": "b"}
MEANINGS = {
    "w": "w: above 0, far tokens\ncount for more",
    "v": "v: the higher, the more\ndistance counts",
    "b": "b: the coefficient\nat distance 0",
}


def weight_numbers(*runs: Sequence[AttentionSublayer]) -> dict:
    """Return the learned numbers of DA's sublayers in a run, or their means over several.

    Args:
        runs: DA's sublayers of each trained model, of one :func:`layout`.

    Returns:
        ``sublayers``, of each ``layer``, ``sublayer``, and ``parameters``: by the name, a list of
        ``head`` and ``value``, by ascending value. Heads of several runs have no common order:
        there it is ``rank`` and ``value``, the mean of the values of this rank.
    """
    return {
        "sublayers": [
            {
                **same[0].labels,
                "parameters": {
                    name: _sorted([learned_parameters(one.mechanism)[name] for one in same])
                    for name in learned_parameters(same[0].mechanism)
                },
            }
            for same in zip(*runs, strict=True)
        ]
    }


def layout(sublayers: Sequence[AttentionSublayer]) -> list:
    """Return what must be equal in runs to be averaged: places, parameters and heads."""
    return [
        (sublayer.labels, [(name, len(values)) for name, values in learned.items()])
        for sublayer in sublayers
        for learned in [learned_parameters(sublayer.mechanism)]
    ]


def learned_parameters(mechanism: DistanceAwareAttention) -> dict[str, list[float]]:
    """Return w of each head, and v (or b) if the mapping has one, by name."""
    parameters = {"w": mechanism.distance_weight.tolist()}
    if mechanism.sigmoid_shift is not None:
        parameters[SHIFTS[mechanism.mapping]] = mechanism.sigmoid_shift.tolist()
    return parameters


def _sorted(runs: Sequence[Sequence[float]]) -> list[dict]:
    if len(runs) > 1:
        ranks = enumerate(zip(*map(sorted, runs), strict=True), start=1)
        return [{"rank": rank, "value": fmean(values)} for rank, values in ranks]
    heads = [{"head": head, "value": value} for head, value in enumerate(runs[0], start=1)]
    return sorted(heads, key=lambda head: head["value"])


def draw_weights(numbers: dict):
    """Return a matplotlib figure of the result of :func:`weight_numbers`."""
    sublayers = numbers["sublayers"]
    names = list(sublayers[0]["parameters"])
    heads = len(sublayers[0]["parameters"]["w"])
    width = max(1.6, 0.25 * heads)
    figure = new_figure(1.2 + width * len(sublayers), 2.2 * len(names))
    axes = figure.subplots(len(names), len(sublayers), sharey="row", squeeze=False)
    for name, row_axes in zip(names, axes, strict=True):
        for sublayer, axis in zip(sublayers, row_axes, strict=True):
            bars = sublayer["parameters"][name]
            values = [bar["value"] for bar in bars]
            colours = [COLOURS[0] if value > 0 else COLOURS[1] for value in values]
            axis.bar(range(len(bars)), values, color=colours)
            axis.axhline(0, color="black", linewidth=0.8)
            kind = "rank" if "rank" in bars[0] else "head"
            axis.set_xticks(range(len(bars)), [bar[kind] for bar in bars])
            axis.set_xlabel(f"{kind}, by {name}")
            axis.set_title(f"layer {sublayer['layer']}, {sublayer['sublayer']}", fontsize=9)
            axis.grid(axis="y", alpha=0.3)
        row_axes[0].set_ylabel(MEANINGS[name])
    return figure
