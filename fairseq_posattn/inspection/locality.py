"""Share of the attention near the query.

Fan et al., 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer", eq. 13 and
Table 5.
"""

from collections.abc import Sequence

import torch
from tabulate import tabulate
from torch import Tensor, nn
from tqdm import tqdm

from fairseq_posattn.inspection.collect import AttentionCall, collect
from fairseq_posattn.inspection.places import Place


def attention_within(weights: Tensor, windows: Sequence[int]) -> Tensor:
    """Return the attention to keys at most w tokens away, averaged over heads and queries.

    Args:
        weights: ``[..., H, T, T]``, query by key, of one sentence without padding.
        windows: the values of w.

    Returns:
        float64 ``[..., W]``.
    """
    mean = weights.double().mean(-3)  # [..., T, T]
    positions = torch.arange(mean.size(-1))
    distances = (positions[:, None] - positions).abs()  # [T, T]
    within = [mean.masked_fill(distances > window, 0.0) for window in windows]
    return torch.stack([weights.sum(-1).mean(-1) for weights in within], dim=-1)


def locality(
    encoder: nn.Module,
    places: Sequence[Place],
    sentences: Sequence[Tensor],
    windows: Sequence[int],
) -> list[dict]:
    """Return :func:`attention_within` averaged over sentences (MANs eq. 13).

    All tokens that the encoder attends to count; classifiers do not see ``</s>``.

    Args:
        encoder: in evaluation mode.
        places: of the encoder.
        sentences: each ``[T]``.
        windows: in tokens, each way.

    Returns:
        rows of ``window``, ``layer``, ``sublayer`` and ``percent``.
    """

    def measure(call: AttentionCall) -> Tensor:
        return attention_within(call.weights, windows).sum(0)  # [W]

    total = torch.zeros(len(places), len(windows), dtype=torch.float64)
    with tqdm(total=len(sentences), unit=" sentences", disable=None) as progress:
        for size, sums in collect(encoder, places, sentences, measure):
            total += torch.stack(sums)
            progress.update(size)
    percents = 100 * total / len(sentences)
    return [
        {"window": window, **place.labels, "percent": value}
        for place, values in zip(places, percents.tolist(), strict=True)
        for window, value in zip(windows, values, strict=True)
    ]


def locality_table(rows: Sequence[dict]) -> str:
    """Return the rows as the paper's table: layers in columns, sublayers in rows."""
    windows, names, layers = (
        list(dict.fromkeys(row[column] for row in rows))
        for column in ("window", "sublayer", "layer")
    )
    percents = {(row["window"], row["sublayer"], row["layer"]): row["percent"] for row in rows}
    table = [["window", "sublayer", *(f"layer {layer}" for layer in layers)]]
    for window in windows:
        for name in names:
            numbers = [f"{percents[window, name, layer]:.2f}" for layer in layers]
            table.append([str(window), name, *numbers])
    alignment = ["right", "left", *["right"] * len(layers)]
    return tabulate(table, tablefmt="plain", colalign=alignment, disable_numparse=True)
