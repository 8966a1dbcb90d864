"""DA's coefficients laid out over a sentence: which pairs of tokens each head promotes.

DA-Transformer (Wu et al., 2021), Figure 2.
"""

import math
from collections.abc import Sequence

import numpy
import torch

from fairseq_posattn.common.figures import new_figure
from fairseq_posattn.inspection.rescaling import learned_parameters
from fairseq_posattn.inspection.sublayers import AttentionSublayer

MOST_COLUMNS = 8


def matrix_numbers(sublayers: Sequence[AttentionSublayer], length: int) -> dict:
    """Return the coefficients of each head of DA sublayers.

    Args:
        length: T, tokens in the sentence.

    Returns:
        ``sublayers``, of each ``layer``, ``sublayer``, ``neutral`` (the coefficient that changes
        nothing), and ``heads``, of each ``head``, ``parameters`` and ``coefficients``, T rows of T,
        query by key, null where the query does not see the key.
    """
    return {
        "sublayers": [
            {
                **sublayer.labels,
                "neutral": 0.0 if sublayer.mechanism.adjustment.endswith("add") else 1.0,
                "heads": _matrices(sublayer.mechanism, length),
            }
            for sublayer in sublayers
        ]
    }


def _matrices(mechanism, length: int) -> list[dict]:
    with torch.no_grad():
        lines = mechanism.coefficients(torch.arange(length)).tolist()  # [H, T]
    parameters = learned_parameters(mechanism)

    def coefficient(line, query, key):
        return None if mechanism.causal and key > query else line[abs(query - key)]

    return [
        {
            "head": head + 1,
            "parameters": {name: values[head] for name, values in parameters.items()},
            "coefficients": [
                [coefficient(line, query, key) for key in range(length)] for query in range(length)
            ],
        }
        for head, line in enumerate(lines)
    ]


def draw_matrices(numbers: dict):
    """Return a matplotlib figure of the result of :func:`matrix_numbers`."""
    sublayers = numbers["sublayers"]
    heads = len(sublayers[0]["heads"])
    rows_each = math.ceil(heads / MOST_COLUMNS)
    columns = math.ceil(heads / rows_each)
    figure = new_figure(1.5 + 1.9 * columns, 2.5 * rows_each * len(sublayers))
    axes = figure.subplots(rows_each * len(sublayers), columns, squeeze=False)
    images = []
    for sublayer, of_sublayer in zip(sublayers, axes.reshape(len(sublayers), -1), strict=True):
        for axis in of_sublayer[heads:]:
            axis.set_axis_off()
        for head, axis in zip(sublayer["heads"], of_sublayer, strict=False):
            images.append(axis.imshow(numpy.array(head["coefficients"], dtype=float), cmap="PuOr"))
            axis.set_title(_title(sublayer, head), fontsize=8)
            axis.set_xlabel("key's position", fontsize=8)
            axis.set_ylabel("query's position", fontsize=8)
            axis.tick_params(labelsize=7)
            axis.locator_params(integer=True)
    neutral = sublayers[0]["neutral"]
    _share_colours(images, neutral)
    bar = figure.colorbar(images[0], ax=axes, fraction=0.02, pad=0.01)
    bar.set_label(f"coefficient ({neutral:g}: no change)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    return figure


def _title(sublayer: dict, head: dict) -> str:
    parameters = ", ".join(f"{name} = {value:.2f}" for name, value in head["parameters"].items())
    return f"layer {sublayer['layer']}, head {head['head']}\n{parameters}"


def _share_colours(images: Sequence, neutral: float):
    """Use one colour scale for all: white at ``neutral``, darker with the difference from it."""
    from matplotlib.colors import TwoSlopeNorm

    lowest = min(image.get_array().min() for image in images)
    highest = max(image.get_array().max() for image in images)
    norm = TwoSlopeNorm(neutral, vmin=min(lowest, neutral - 1), vmax=max(highest, neutral + 1))
    for image in images:
        image.set_norm(norm)
