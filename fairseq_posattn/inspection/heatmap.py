"""Attention within a sentence: a panel for each head, a row for each query, a column for each key.

DA-Transformer (Wu et al., 2021), Figure 8, and MPSAN's masks. For MTSA (Shen et al., 2019, Figure
3) the panels show its token2token weights, and another panel source2token, a column for each head.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
from torch import Tensor, nn

from fairseq_posattn.attention.mtsa import TensorizedAttention
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.figures import new_figure
from fairseq_posattn.inspection.collect import AttentionCall, measure_batch
from fairseq_posattn.inspection.places import Place

TOKEN2TOKEN, SOURCE2TOKEN = "attention", "source2token"

LONGEST_LABEL = 14  # characters
FONT_SIZE = 7
# In inches:
LABEL_HEIGHT = 0.125
NARROWEST_PANEL, WIDEST_PANEL = 2.2, 8.0
PAGE_WIDTH, PAGE_HEIGHT = 18.0, 15.0
ROOM_FOR_LABELS = 1.4


def attention_numbers(
    encoder: nn.Module,
    places: Sequence[Place],
    heads: Sequence[int] | None,
    sentence: Tensor,
    labels: Sequence[str],
) -> dict[str, Any]:
    """Return the weights of the heads (from 1; None for all) in a sentence ``[T]``.

    Returns:
        ``tokens``, the labels without the ``</s>`` that classifiers do not see; and ``sublayers``,
        of each ``layer``, ``sublayer``, ``note`` and ``heads``, of each ``head``, ``note`` and
        ``weights``, query by key. MTSA's heads have T ``source2token`` weights, too.
    """
    measured = measure_batch(encoder, places, sentence[None], lambda call: _of_heads(call, heads))
    length = len(measured[0]["heads"][0]["weights"])
    return {"tokens": list(labels[:length]), "sublayers": measured}


def _of_heads(call: AttentionCall, heads: Sequence[int] | None) -> dict[str, Any]:
    place, weights = call.place, call.weights[0]  # [H, T, T]
    for head in heads or ():
        if not 1 <= head <= len(weights):
            raise UsageError(f"--heads {head}: there are heads 1 to {len(weights)}")
    chosen: list[dict[str, Any]] = [
        {"head": head, "note": place.head_note(head - 1), "weights": weights[head - 1].tolist()}
        for head in heads or range(1, len(weights) + 1)
    ]
    if isinstance(place.owner, TensorizedAttention):
        for one in chosen:
            one["source2token"] = call.source2token()[0, one["head"] - 1].tolist()
    return {**place.labels, "note": place.note(call.result), "heads": chosen}


def draw_attention(numbers: dict[str, Any]) -> Iterator[Any]:
    """Yield matplotlib figures of the result of :func:`attention_numbers`, one for each page."""
    tokens = numbers["tokens"]
    side = min(max(len(tokens) * LABEL_HEIGHT, NARROWEST_PANEL), WIDEST_PANEL)
    most_columns = max(1, int(PAGE_WIDTH / side))
    rows = [row for sublayer in numbers["sublayers"] for row in _panel_rows(sublayer, most_columns)]
    panels = [panel for row in rows for panel in row]
    norms = {kind: _norm(panels, kind) for kind in (TOKEN2TOKEN, SOURCE2TOKEN)}
    columns, rows_each = max(map(len, rows)), max(1, int(PAGE_HEIGHT / (side + ROOM_FOR_LABELS)))
    for start in range(0, len(rows), rows_each):
        yield _draw_page(rows[start : start + rows_each], columns, tokens, side, norms)


def _draw_page(
    rows: Sequence[Sequence[dict[str, Any]]],
    columns: int,
    tokens: Sequence[str],
    side: float,
    norms: dict[str, Any],
) -> Any:
    from matplotlib.colors import PowerNorm

    figure = new_figure(columns * side + 2.5, len(rows) * (side + ROOM_FOR_LABELS))
    axes = figure.subplots(len(rows), columns, squeeze=False)
    images = {}
    for row, row_axes in zip(rows, axes, strict=True):
        for axis in row_axes[len(row) :]:
            axis.set_axis_off()
        for panel, axis in zip(row, row_axes, strict=False):
            images[panel["kind"]] = _draw_panel(axis, panel, norms[panel["kind"]])
            _label_tokens(axis.yaxis, tokens, side)
            if panel["kind"] == TOKEN2TOKEN:
                _label_tokens(axis.xaxis, tokens, side, rotation=90)
                is_first = axis is row_axes[0]  # whose labels the other panels share
                axis.tick_params(labelleft=is_first)
                axis.set_ylabel("query (the token that attends)" if is_first else "")
    for kind, image in images.items():
        scale = ", color by its square root" if isinstance(image.norm, PowerNorm) else ""
        figure.colorbar(image, ax=axes, label=f"{kind} weight{scale}", fraction=0.02, pad=0.01)
    return figure


def _panel_rows(sublayer: dict[str, Any], most_columns: int) -> list[list[dict[str, Any]]]:
    """Return the panels of a sublayer in as few, evenly filled rows as possible."""
    title = f"layer {sublayer['layer']}, {sublayer['sublayer']}"
    heads = sublayer["heads"]
    panels: list[dict[str, Any]] = []
    for head in heads:
        lines = filter(None, (f"{title}, head {head['head']}", head["note"]))
        values = numpy.array(head["weights"])
        panels.append({"kind": TOKEN2TOKEN, "title": "\n".join(lines), "values": values})
    if SOURCE2TOKEN in heads[0]:
        values = numpy.array([head[SOURCE2TOKEN] for head in heads]).T
        panel = {"kind": SOURCE2TOKEN, "title": f"{title}\n{SOURCE2TOKEN}", "values": values}
        panels.append({**panel, "heads": [head["head"] for head in heads]})
    columns = math.ceil(len(panels) / math.ceil(len(panels) / most_columns))
    return [panels[start : start + columns] for start in range(0, len(panels), columns)]


def _draw_panel(axis: Any, panel: dict[str, Any], norm: Any) -> Any:
    axis.set_title(panel["title"], fontsize=9)
    axis.tick_params(labelsize=FONT_SIZE, length=2)
    if panel["kind"] == TOKEN2TOKEN:
        axis.set_xlabel("key (the token attended to)")
        return axis.imshow(panel["values"], cmap="Blues", norm=norm)
    axis.set_xlabel("head")
    axis.set_xticks(range(len(panel["heads"])), panel["heads"])
    axis.set_box_aspect(1)
    return axis.imshow(panel["values"], cmap="Oranges", norm=norm, aspect="auto")


def _label_tokens(axis: Any, tokens: Sequence[str], side: float, rotation: int = 0) -> None:
    """Label the positions, every second or third one if not all fit."""
    step = math.ceil(len(tokens) * LABEL_HEIGHT / side)
    positions = range(0, len(tokens), step)
    labels = [
        token if len(token) <= LONGEST_LABEL else f"{token[: LONGEST_LABEL - 1]}…"
        for token in tokens[::step]
    ]
    # A dollar sign is a token, not the start of a formula.
    axis.set_ticks(positions, labels, rotation=rotation, parse_math=False)


def _norm(panels: Sequence[dict[str, Any]], kind: str) -> Any:
    """Return the color scale that all panels of a kind share."""
    from matplotlib.colors import Normalize, PowerNorm

    values = [panel["values"] for panel in panels if panel["kind"] == kind]
    lowest = min((one.min() for one in values), default=0.0)
    highest = max((one.max() for one in values), default=1.0)
    if lowest < 0:  # DA's late_add may take weight away
        return Normalize(lowest, highest)
    if kind == SOURCE2TOKEN:
        return Normalize(0.0, highest or 1.0)
    # Heads that look everywhere have small weights, which a linear scale would not show.
    return PowerNorm(0.5, vmin=0.0, vmax=highest or 1.0)
