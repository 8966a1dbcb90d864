"""A model with an adaptive softmax and shared embeddings is loaded from its own weights."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerConfig, TransformerDecoderBase
from fairseq.models.transformer import TransformerModelBase as Transformer

from fairseq_posattn.training.plugin import register

register()

from fairseq_posattn.training.models import PosAttnTransformer  # noqa: E402

SIZES = {"embed_dim": 8, "ffn_embed_dim": 8, "layers": 1, "attention_heads": 2}


@pytest.fixture(params=[Transformer, PosAttnTransformer])
def build(request):
    words = Dictionary()
    for number in range(20 - words.nspecial):
        words.add_symbol(f"word{number}")
    flags = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in SIZES.items()}
    flags |= {"share_all_embeddings": True, "adaptive_softmax_cutoff": "8,14"}

    def build():
        cfg = Namespace(**flags)
        if request.param is Transformer:
            cfg = TransformerConfig.from_namespace(cfg)
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        return request.param.build_model(cfg, task)

    return build


def test_weights_are_loaded_again(build):
    weights = build().state_dict()
    model = build()
    model.load_state_dict(weights)
    assert all(weights[name].equal(value) for name, value in model.state_dict().items())


def test_fairseq_fails_without_it(build, monkeypatch):
    mended = TransformerDecoderBase.upgrade_state_dict_named
    monkeypatch.setattr(TransformerDecoderBase, "upgrade_state_dict_named", mended.__wrapped__)
    with pytest.raises(RuntimeError, match="decoder.output_projection.weight"):
        build().load_state_dict(build().state_dict())
