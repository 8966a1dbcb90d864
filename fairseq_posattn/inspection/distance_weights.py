"""What each head of DA has learned: its w and v, sorted.

DA-Transformer (Wu et al., 2021), Figures 6 and 7.
"""

from collections.abc import Sequence

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


def weight_numbers(sublayers: Sequence[AttentionSublayer]) -> dict:
    """The learned numbers of sublayers whose mechanism is DA.

    Returns:
        ``sublayers``, of each ``layer``, ``sublayer``, and ``parameters``: by the name, a list of
        ``head`` and ``value``, by ascending value.
    """
    return {
        "sublayers": [
            {
                **sublayer.labels,
                "parameters": {
                    name: _sorted(values)
                    for name, values in learned_parameters(sublayer.mechanism).items()
                },
            }
            for sublayer in sublayers
        ]
    }


def learned_parameters(mechanism: DistanceAwareAttention) -> dict[str, list[float]]:
    """w of each head, and v (or b) where the mapping has one, by their names."""
    parameters = {"w": mechanism.distance_weight.tolist()}
    if mechanism.sigmoid_shift is not None:
        parameters[SHIFTS[mechanism.mapping]] = mechanism.sigmoid_shift.tolist()
    return parameters


def _sorted(values: Sequence[float]) -> list[dict]:
    heads = [{"head": head, "value": value} for head, value in enumerate(values, start=1)]
    return sorted(heads, key=lambda head: head["value"])


def draw_weights(numbers: dict):
    """A matplotlib figure of what :func:`weight_numbers` returned."""
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
            axis.set_xticks(range(len(bars)), [bar["head"] for bar in bars])
            axis.set_xlabel(f"head, by {name}")
            axis.set_title(f"layer {sublayer['layer']}, {sublayer['sublayer']}", fontsize=9)
            axis.grid(axis="y", alpha=0.3)
        row_axes[0].set_ylabel(MEANINGS[name])
    return figure
