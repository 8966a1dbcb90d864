"""ONNX graphs of encoders on batches and lengths other than the traced ones."""

import pytest
import torch
from classifier_builder import PAD, sentences
from test_export import TINY_TRANSFORMER
from test_onnx import close, graph

from fairseq_posattn.export.checkpoint import export

pytestmark = pytest.mark.slow  # each traces a model
ONE = "--encoder-layers=1"
# All mechanisms, all kinds of embeddings and layer norms, and several layers.
ENCODERS = [
    ["--encoder-sublayers=san,dman,mtsa,gaussian,sman,ffn", "--encoder-normalize-before", ONE],
    pytest.param(
        ["--encoder-sublayers=past,future,masked,ffn", "--encoder-learned-pos"],
        marks=pytest.mark.nightly,
    ),
    ["--encoder-sublayers=da,rpr,transformer_xl,tener,ffn", "--layernorm-embedding", ONE],
    ["--encoder-sublayers=rope,alibi,t5,kerple,fire,ffn", ONE],
]


@pytest.mark.parametrize("flags", ENCODERS, ids="".join)
@torch.no_grad()
def test_an_encoders_graph_gives_its_states(flags, translator, tmp_path):
    path, _ = translator("posattn_transformer", *TINY_TRANSFORMER, *flags)
    model = export(path, tmp_path / "out").model
    ask = graph(model, tmp_path / "out")
    for ids in (sentences(2, 9, 1, 4, 1, left_pad=True), sentences(30)):
        mask = ids.ne(PAD).long()
        expected = model.get_encoder()(ids, mask).last_hidden_state
        present = mask.bool()
        close(ask(ids, mask)[present], expected[present])
