#!/usr/bin/env python3
"""Draw the idea, and the pictures of docs/mechanisms.md: attention weights of equal tokens.

    python scripts/mechanism_pictures.py [FOLDER]    # default: docs/pictures

idea.png has a layer as a list of sublayers, and a matrix for each mechanism; the folder mechanisms
a picture for each, with several heads.

Queries and keys are alike at all positions, so that only the positional part of a mechanism shows.
Each row is relative to its largest weight. Parameters are chosen for the picture; models learn
others.
"""

import argparse
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from matplotlib.patches import FancyBboxPatch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn import attention  # noqa: E402
from fairseq_posattn.common.figures import COLORS, new_figure, write_picture  # noqa: E402

TOKENS, HEADS, FEATURES = 16, 2, 8
DISTANCES = torch.arange(1 - TOKENS, TOKENS)
BLUE, _, GREEN = COLORS[:3]
GRAY = "#777777"
# The sublayers of the left side: name, explanation, color.
LAYER = (
    ("dman", "attention under a learned mask", BLUE),
    ("san", "plain attention", GREEN),
    ("ffn", "feed-forward", GRAY),
)
# Name, explanation, and key of the matrix in make_pictures(); None is plain attention.
MATRICES = (
    ("san", "no positions", None),
    ("dman", "learned mask", ("dman", 0)),
    ("sman", "fixed window", ("sman", 1)),
    ("da", "rescaled by distance", ("da", 0)),
    ("gaussian", "learned window", ("gaussian", 1)),
    ("past", "earlier tokens", ("mtsa", 0)),
    ("future", "later tokens", ("mtsa", 1)),
    ("rpr", "vector per distance", ("rpr", 0)),
    ("transformer_xl", "relative attention", ("transformer_xl", 0)),
    ("tener", "direction-aware", ("tener", 0)),
)


def make_pictures():
    """Return for each mechanism the titles of its heads and their weights ``[H, T, T]``."""
    query = torch.full((1, HEADS, TOKENS, FEATURES), 0.8)
    torch.manual_seed(1)
    # Vectors of the distances -3 to 3: the previous token has the largest score.
    relative = torch.tensor([-0.2, 0.3, 0.9, 0.5, 0.2, -0.1, -0.5])[:, None].expand(-1, FEATURES)
    options = {"need_weights": True, "impl": "reference"}
    qkv = query, query, query

    def masked(*names):
        mask = torch.stack([attention.mask_by_name(name, TOKENS) for name in names])
        alike = torch.ones(1, len(names), TOKENS, FEATURES)
        return attention.masked_dot_product_attention(alike, alike, alike, mask, **options)[1]

    static = torch.cat(
        [attention.static_mask(TOKENS, TOKENS, radius) for radius in (None, 4)], dim=1
    )
    sman = attention.mask_attention(*qkv, static, **options)[1]
    dman = [
        attention.dynamic_mask_attention(
            *qkv,
            query_bias=torch.zeros(1, TOKENS),
            distance_bias=table,
            head_bias=torch.zeros(HEADS),
            **options,
        )[1][:, 0]
        for table in (3 - DISTANCES.abs().float(), 3 - (DISTANCES - 3).abs().float())
    ]
    da = attention.distance_aware_attention(
        *qkv, torch.tensor([-0.5, 0.3]), torch.tensor([1.0, 1.0]), **options
    )[1]
    gaussian = attention.gaussian_attention(
        *qkv,
        torch.linspace(-2, 2, TOKENS).expand(1, HEADS, TOKENS),
        torch.tensor([-2.0, -0.5])[None, :, None].expand(1, HEADS, TOKENS),
        **options,
    )[1]
    rpr = attention.relative_position_attention(*qkv, relative, relative, **options)[1]
    modules = {
        name: getattr(attention, module)(HEADS * FEATURES, HEADS, impl="reference")
        for name, module in (
            ("transformer_xl", "TransformerXLAttention"),
            ("tener", "AdaptedAttention"),
        )
    }
    rope = attention.rotary_attention(*qkv, base=100.0, **options)[1]
    alibi = attention.alibi_attention(*qkv, **options)[1]
    buckets = torch.linspace(3, 0, 16)[:, None].repeat(2, HEADS)
    buckets[16:, 1] -= 2
    t5 = attention.t5_attention(*qkv, buckets, max_distance=TOKENS, **options)[1]
    rates = torch.tensor([0.5, 2.0]).log()
    kerple = attention.kerple_attention(*qkv, rates, torch.zeros(HEADS), **options)[1]
    fire = attention.FunctionalBiasAttention(HEADS, impl="reference", causal=True)
    fire.threshold_factor.data.fill_(8 / 512)
    fire.output.weight.data.mul_(8)
    counts = torch.zeros(TOKENS, FEATURES)
    counts[:3] = torch.tensor([0.1, 0.5, 0.4])[:, None]
    cope = attention.contextual_position_attention(*qkv, counts, **options)[1]
    gates = torch.tensor([0.7, 0.95])[:, None].repeat(1, TOKENS)
    gates[:, 10] = 0.01
    forget = attention.forgetting_attention(*qkv, gates.log()[None], **options)[1]
    hidden = torch.zeros(1, TOKENS, HEADS * FEATURES)
    return {
        "dman": (("near tokens", "three tokens back"), torch.cat(dman)),
        "sman": (("radius sqrt(T/2)", "radius 4"), sman[0]),
        "da": (("w < 0: near tokens", "w > 0: far tokens"), da[0]),
        "mtsa": (("past", "future"), masked("past", "future")[0]),
        "mpsan": (
            ("window:2", "window:3", "past+scaled_distance", "future+scaled_distance"),
            masked("window:2", "window:3", "past+scaled_distance", "future+scaled_distance")[0],
        ),
        "masked": (("past", "others"), masked("past", "others")[0]),
        "rpr": (("all heads, k = 3",), rpr[0, :1]),
        "gaussian": (("narrow window", "wide window"), gaussian[0]),
        "rope": (("all heads, base 100",), rope[0, :1]),
        "alibi": (("m = 1/16", "m = 1/256"), alibi[0]),
        "t5": (("symmetric", "mostly earlier"), t5[0]),
        "kerple": (("r1 = 0.5", "r1 = 2"), kerple[0]),
        "fire": (
            ("head 1", "head 2"),
            fire(query[0], *qkv, need_weights=True)[1][0].detach(),
        ),
        "cope": (("all heads",), cope[0, :1]),
        "forget": (("f = 0.7, once 0.01", "f = 0.95, once 0.01"), forget[0]),
        **{
            name: (
                ("head 1", "head 2"),
                module(hidden, *qkv, need_weights=True)[1][0].detach(),
            )
            for name, module in modules.items()
        },
    }


def relative_rows(weights):
    """Return the weights, each row divided by its largest weight."""
    return weights / weights.amax(dim=1, keepdim=True).clamp(min=1e-9)


def draw_idea(path, pictures):
    """Draw a layer as a list of sublayers, and the weights of each mechanism."""
    figure = new_figure(10.5, 4.3)
    left, right = figure.subfigures(1, 2, width_ratios=(3, 7.5))
    axis = left.subplots()
    axis.set(xlim=(0, 10), ylim=(0, 10))
    axis.axis("off")
    axis.set_title("--encoder-sublayers dman,san,ffn", family="monospace", fontsize=10)
    box = {"boxstyle": "round,pad=0.1,rounding_size=0.4", "linewidth": 1.5}
    for number, (name, text, color) in enumerate(LAYER):
        bottom = 0.9 + 3.0 * number
        _arrow(axis, bottom - 1.0)
        axis.add_patch(FancyBboxPatch((1.2, bottom), 7.6, 1.8, fc=color + "22", ec=color, **box))
        axis.text(5, bottom + 1.25, name, ha="center", va="center", family="monospace", size=12)
        axis.text(5, bottom + 0.5, text, ha="center", va="center", size=9)
    _arrow(axis, 0.9 + 3.0 * len(LAYER) - 1.0)
    axes = right.subplots(2, len(MATRICES) // 2)
    right.suptitle(
        "attention weights if all tokens are alike (row: query, column: key)", fontsize=10
    )
    for cell, (name, text, key) in zip(axes.flat, MATRICES, strict=True):
        matrix = pictures[key[0]][1][key[1]] if key else torch.ones(16, 16)
        cell.imshow(relative_rows(matrix), cmap="Blues", vmin=0, vmax=1.3)
        cell.set_title(name, family="monospace", fontsize=11)
        cell.set_xlabel(text, fontsize=9)
        cell.set(xticks=[], yticks=[])
    write_picture(figure, str(path))


def _arrow(axis, bottom):
    axis.annotate(
        "", (5, bottom + 0.85), (5, bottom), arrowprops={"arrowstyle": "-|>", "color": "black"}
    )


def main():
    """Draw all pictures."""
    style = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=style)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "docs/pictures")
    folder = parser.parse_args().folder
    (folder / "mechanisms").mkdir(parents=True, exist_ok=True)
    pictures = make_pictures()
    draw_idea(folder / "idea.png", pictures)
    for name, (titles, weights) in pictures.items():
        figure, axes = plt.subplots(1, len(titles), figsize=(2.4 * len(titles), 2.6), squeeze=False)
        for axis, title, weight in zip(axes[0], titles, weights, strict=False):
            axis.imshow(relative_rows(weight), cmap="Blues", vmin=0, vmax=1.3)
            axis.set_title(title, fontsize=8)
            axis.set_xlabel("key", fontsize=8)
            axis.set_ylabel("query", fontsize=8)
            axis.set_xticks(range(0, TOKENS, 5))
            axis.set_yticks(range(0, TOKENS, 5))
            axis.tick_params(labelsize=6)
        figure.tight_layout()
        figure.savefig(folder / "mechanisms" / f"{name}.png", dpi=80, metadata={"Software": None})
        plt.close(figure)
        print(folder / "mechanisms" / f"{name}.png")


if __name__ == "__main__":
    main()
