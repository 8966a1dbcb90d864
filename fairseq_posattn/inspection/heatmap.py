"""Who attends to whom in a sentence: a square a head, a row a query, a column a key.

DA-Transformer (Wu et al., 2021), Figure 8. For MTSA (Shen et al., 2019), Figure 3: the squares are
its token2token weights, and beside them stand its source2token weights, a column a head.
"""

import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy
from torch import Tensor, nn

from fairseq_posattn.attention import DistanceAwareAttention
from fairseq_posattn.attention.mtsa import TensorizedAttention
from fairseq_posattn.common.figures import new_figure
from fairseq_posattn.inspection.collect import AttentionCall, measure_batch
from fairseq_posattn.inspection.sublayers import AttentionSublayer

TOKEN2TOKEN, SOURCE2TOKEN = "attention", "source2token"

LONGEST_LABEL = 14  # characters
FONT_SIZE = 7
# In inches:
LABEL_HEIGHT = 0.125
NARROWEST_PANEL, WIDEST_PANEL = 2.2, 8.0
WIDEST_FIGURE = 18.0
ROOM_FOR_LABELS = 1.4


def attention_numbers(
    encoder: nn.Module,
    sublayers: Sequence[AttentionSublayer],
    heads: Sequence[int],
    sentence: Tensor,
    labels: Sequence[str],
) -> dict:
    """Return the weights of the heads in a sentence.

    Args:
        heads: counted from 1.
        sentence: ``[T]``.
        labels: T names of its tokens. A classifier does not see the ``</s>`` at the end: it is then
            left out.

    Returns:
        ``tokens``, and ``sublayers``, of each ``layer``, ``sublayer``, and ``heads``, of each
        ``head``, a ``note`` on it, and ``weights``, T rows of T, query by key. Where the mechanism
        has source2token weights, ``source2token`` of a head has T.
    """
    batch = sentence[None]
    measured = measure_batch(encoder, sublayers, batch, lambda call: _of_heads(call, heads))
    seen = len(measured[0][0]["weights"])
    return {
        "tokens": list(labels[:seen]),
        "sublayers": [
            {**sublayer.labels, "heads": of_heads}
            for sublayer, of_heads in zip(sublayers, measured, strict=True)
        ],
    }


def _of_heads(call: AttentionCall, heads: Sequence[int]) -> list[dict]:
    numbers = [
        {
            "head": head,
            "note": note_on_head(call.mechanism, head - 1),
            "weights": call.weights[0, head - 1].tolist(),
        }
        for head in heads
    ]
    if isinstance(call.mechanism, TensorizedAttention):
        source2token = call.mechanism.token_source_weights(
            call.key, call.value, hidden=call.hidden
        )  # [1, H, T]
        for of_head in numbers:
            of_head["source2token"] = source2token[0, of_head["head"] - 1].tolist()
    return numbers


def note_on_head(mechanism: nn.Module, head: int) -> str:
    """Return a note on a head's parameters or mask; may be empty."""
    if isinstance(mechanism, DistanceAwareAttention):
        return f"w = {mechanism.distance_weight[head]:+.2f}"
    masks = getattr(mechanism, "masks", None)
    return "" if masks is None else f"mask {masks.names[head]}"


def draw_attention(numbers: dict):
    """Return a matplotlib figure of the result of :func:`attention_numbers`."""
    tokens = numbers["tokens"]
    side = min(max(len(tokens) * LABEL_HEIGHT, NARROWEST_PANEL), WIDEST_PANEL)
    most_columns = max(1, int(WIDEST_FIGURE / side))
    rows = [row for sublayer in numbers["sublayers"] for row in _panel_rows(sublayer, most_columns)]
    columns = max(map(len, rows))

    figure = new_figure(columns * side + 2.5, len(rows) * (side + ROOM_FOR_LABELS))
    axes = figure.subplots(len(rows), columns, squeeze=False)
    images = {}
    for row, row_axes in zip(rows, axes, strict=True):
        for panel, axis in zip_longest(row, row_axes):
            if panel is None:
                axis.set_axis_off()
                continue
            images.setdefault(panel["kind"], []).append(_draw_panel(axis, panel))
            _label_tokens(axis.yaxis, tokens, side)
            if panel["kind"] == TOKEN2TOKEN:
                _label_tokens(axis.xaxis, tokens, side, rotation=90)
                _label_queries(axis, is_first=axis is row_axes[0])
    for kind, of_kind in images.items():
        # Heads that look everywhere have small weights, which a linear scale would not show.
        _share_colours(of_kind, power=0.5 if kind == TOKEN2TOKEN else 1.0)
        figure.colorbar(of_kind[0], ax=axes, label=f"{kind} weight", fraction=0.02, pad=0.01)
    return figure


def _panel_rows(sublayer: dict, most_columns: int) -> list[list[dict]]:
    """Return the panels of a sublayer in as few, evenly filled rows as possible."""
    title = f"layer {sublayer['layer']}, {sublayer['sublayer']}"
    heads = sublayer["heads"]
    panels = [
        {
            "kind": TOKEN2TOKEN,
            "title": f"{title}, head {head['head']}"
            + (f"\n{head['note']}" if head["note"] else ""),
            "values": numpy.array(head["weights"]),
        }
        for head in heads
    ]
    if "source2token" in heads[0]:
        panels.append(
            {
                "kind": SOURCE2TOKEN,
                "title": f"{title}\nsource2token",
                "values": numpy.array([head["source2token"] for head in heads]).T,
                "heads": [head["head"] for head in heads],
            }
        )
    number_of_rows = math.ceil(len(panels) / most_columns)
    columns = math.ceil(len(panels) / number_of_rows)
    return [panels[start : start + columns] for start in range(0, len(panels), columns)]


def _draw_panel(axis, panel: dict):
    axis.set_title(panel["title"], fontsize=9)
    axis.tick_params(labelsize=FONT_SIZE, length=2)
    if panel["kind"] == TOKEN2TOKEN:
        axis.set_xlabel("key (the token attended to)")
        return axis.imshow(panel["values"], cmap="Blues")
    axis.set_xlabel("head")
    axis.set_xticks(range(len(panel["heads"])), panel["heads"])
    axis.set_box_aspect(1)
    return axis.imshow(panel["values"], cmap="Oranges", aspect="auto")


def _label_tokens(axis, tokens: Sequence[str], side: float, rotation: int = 0):
    """Label the positions, every second or third one if not all fit."""
    step = math.ceil(len(tokens) * LABEL_HEIGHT / side)
    positions = range(0, len(tokens), step)
    labels = [_shorten(tokens[position]) for position in positions]
    # A dollar sign is a token, not the start of a formula.
    axis.set_ticks(positions, labels, rotation=rotation, parse_math=False)


def _label_queries(axis, is_first: bool):
    """Label queries only left of a row of panels, which share them."""
    axis.tick_params(labelleft=is_first)
    if is_first:
        axis.set_ylabel("query (the token that attends)")


def _shorten(token: str) -> str:
    return token if len(token) <= LONGEST_LABEL else f"{token[: LONGEST_LABEL - 1]}…"


def _share_colours(images: Sequence, power: float):
    """Use one colour scale for all panels, by a power of the weights."""
    from matplotlib.colors import Normalize, PowerNorm

    lowest = min(float(image.get_array().min()) for image in images)
    highest = max(float(image.get_array().max()) for image in images)
    if lowest < 0:  # DA's late_add may take weight away
        norm = Normalize(lowest, highest)
    else:
        norm = PowerNorm(power, vmin=0.0, vmax=highest or 1.0)
    for image in images:
        image.set_norm(norm)
