"""Tiny untrained models whose attention the tests look into."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_posattn.inspection.sublayers import attention_sublayers
from fairseq_posattn.training.models import PosAttnTransformer
from fairseq_posattn.training.plugin import register

register()


@pytest.fixture
def dictionary():
    """The words a to j."""
    words = Dictionary()
    for letter in "abcdefghij":
        words.add_symbol(letter)
    return words


@pytest.fixture
def build(dictionary):
    """``build("dman,san,ffn")``: an encoder of two layers and its attention sublayers."""

    def build(encoder, decoder="san,cross,ffn", side="encoder", **flags):
        torch.manual_seed(1)
        sizes = {
            f"{side}_{name}": number
            for side in ("encoder", "decoder")
            for name, number in (
                ("embed_dim", 16),
                ("ffn_embed_dim", 16),
                ("layers", 2),
                ("attention_heads", 2),
            )
        }
        names = {"encoder": encoder, "decoder": decoder}
        sublayer_flags = {f"{side}_sublayers": names[side] for side in names}
        task = SimpleNamespace(source_dictionary=dictionary, target_dictionary=dictionary)
        cfg = Namespace(**sizes, **sublayer_flags, **flags)
        model = PosAttnTransformer.build_model(cfg, task).eval()
        chosen = getattr(model, side)
        return chosen, attention_sublayers(chosen.layers, names[side].split(","))

    return build


@pytest.fixture
def sentences():
    """Tokens of the dictionary, in lengths that differ and one that repeats."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randint(4, 14, (length,), generator=generator) for length in (5, 3, 7, 5, 1, 5)]


@pytest.fixture
def labels_of():
    """``labels_of(figure)``: every title, axis label and colour bar's label in it."""

    def labels_of(figure):
        return [
            text
            for axis in figure.axes
            for text in (axis.get_title(), axis.get_xlabel(), axis.get_ylabel())
            if text
        ]

    return labels_of
