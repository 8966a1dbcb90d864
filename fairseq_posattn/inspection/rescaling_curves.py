"""DA's function of distance, as each head has learned it.

DA-Transformer (Wu et al., 2021), Figure 1: f against the weighted distance. Beside it, f against
the distance itself, which also tells how far the head looks.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_posattn.attention.da import DistanceAwareAttention
from fairseq_posattn.attention.rescaling import rescaled_coefficients
from fairseq_posattn.common.figures import line_style, new_figure
from fairseq_posattn.inspection.rescaling import learned_parameters
from fairseq_posattn.inspection.sublayers import AttentionSublayer

WEIGHTED_DISTANCES = torch.linspace(-10, 10, 101)  # the range of the paper's figure


def curve_numbers(sublayers: Sequence[AttentionSublayer], furthest: int) -> dict:
    """Return f of each head of DA sublayers.

    Args:
        furthest: distance in tokens up to which f is worked out.

    Returns:
        ``weighted_distances``, ``distances`` and ``sublayers``, of each ``layer``, ``sublayer``,
        ``mapping``, ``adjustment``, and ``heads``, of each ``head``, ``parameters``, and f at both:
        ``by_weighted_distance`` and ``by_distance``.
    """
    distances = torch.arange(furthest + 1)
    return {
        "weighted_distances": WEIGHTED_DISTANCES.tolist(),
        "distances": distances.tolist(),
        "sublayers": [
            {
                **sublayer.labels,
                "mapping": sublayer.mechanism.mapping,
                "adjustment": sublayer.mechanism.adjustment,
                "heads": _curves(sublayer.mechanism, distances),
            }
            for sublayer in sublayers
        ],
    }


def _curves(mechanism: DistanceAwareAttention, distances: Tensor) -> list[dict]:
    with torch.no_grad():
        by_distance = mechanism.coefficients(distances)  # [H, N+1]
        by_weighted_distance = _mapped(mechanism, WEIGHTED_DISTANCES)  # [H, X]
    parameters = learned_parameters(mechanism)
    return [
        {
            "head": head + 1,
            "parameters": {name: values[head] for name, values in parameters.items()},
            "by_weighted_distance": by_weighted_distance[head].tolist(),
            "by_distance": by_distance[head].tolist(),
        }
        for head in range(len(by_distance))
    ]


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


def draw_curves(numbers: dict):
    """Return a matplotlib figure of the result of :func:`curve_numbers`."""
    sublayers = numbers["sublayers"]
    legend_height = 0.16 * len(sublayers[0]["heads"])
    figure = new_figure(10, len(sublayers) * max(2.6, legend_height + 0.5))
    axes = figure.subplots(len(sublayers), 2, squeeze=False)
    for sublayer, (left, right) in zip(sublayers, axes, strict=True):
        for index, head in enumerate(sublayer["heads"]):
            style = line_style(index)
            left.plot(numbers["weighted_distances"], head["by_weighted_distance"], **style)
            right.plot(numbers["distances"], head["by_distance"], label=_legend(head), **style)
        for axis in (left, right):
            axis.set_title(f"layer {sublayer['layer']}, {sublayer['sublayer']}", fontsize=9)
            axis.set_ylabel("coefficient f")
            axis.grid(alpha=0.3)
        left.set_xlabel("weighted distance w·|t - s|")
        right.set_xlabel("distance |t - s| (tokens)")
        right.xaxis.get_major_locator().set_params(integer=True)
        right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=7)
    return figure


def _legend(head: dict) -> str:
    parameters = ", ".join(f"{name} = {value:.2f}" for name, value in head["parameters"].items())
    return f"head {head['head']}: {parameters}"
