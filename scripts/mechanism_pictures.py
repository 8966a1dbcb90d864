#!/usr/bin/env python3
"""Draw the pictures of docs/mechanisms.md: attention weights of tokens with equal content.

    python scripts/mechanism_pictures.py [FOLDER]    # docs/pictures/mechanisms if none is given

Queries and keys are alike at all positions, so that only the positional part of a mechanism shows.
Parameters are chosen for the picture; models learn others.
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from fairseq_posattn import attention  # noqa: E402

TOKENS, HEADS, FEATURES = 16, 2, 8
DISTANCES = torch.arange(1 - TOKENS, TOKENS)


def make_pictures():
    """Return for each mechanism the titles of its heads and their weights ``[H, T, T]``."""
    query = torch.full((1, HEADS, TOKENS, FEATURES), 0.8)
    torch.manual_seed(1)
    relative = torch.randn(2 * 3 + 1, FEATURES)
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
        **{
            name: (
                ("head 1", "head 2"),
                module(hidden, *qkv, need_weights=True)[1][0].detach(),
            )
            for name, module in modules.items()
        },
    }


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs/pictures/mechanisms"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (titles, weights) in make_pictures().items():
        figure, axes = plt.subplots(1, len(titles), figsize=(2.4 * len(titles), 2.6), squeeze=False)
        for axis, title, weight in zip(axes[0], titles, weights, strict=False):
            axis.imshow(weight, cmap="Blues", vmin=0)
            axis.set_title(title, fontsize=8)
            axis.set_xlabel("key", fontsize=8)
            axis.set_ylabel("query", fontsize=8)
            axis.set_xticks(range(0, TOKENS, 5))
            axis.set_yticks(range(0, TOKENS, 5))
            axis.tick_params(labelsize=6)
        figure.tight_layout()
        figure.savefig(folder / f"{name}.png", dpi=80, metadata={"Software": None})
        plt.close(figure)
        print(folder / f"{name}.png")


if __name__ == "__main__":
    main()
