"""Layers written without fairseq equal fairseq's."""

import pytest
import torch
from fairseq import utils
from fairseq.modules import FairseqDropout, PositionalEmbedding

from fairseq_posattn.attention import DotProductAttention
from fairseq_posattn.model.embeddings import LearnedPositions, SinusoidalPositions
from fairseq_posattn.model.feed_forward import ACTIVATIONS, Dropout
from fairseq_posattn.model.multihead import MultiheadCrossAttention

PAD = 1


@pytest.mark.parametrize("name", utils.get_available_activation_fns())
def test_activations(name):
    x = torch.linspace(-3, 3, 31)
    expected = utils.get_activation_fn(name)(x)
    torch.testing.assert_close(ACTIVATIONS[name](x), expected)


@pytest.mark.parametrize("names", [None, ["Residual"], ["FeedForward"]])
@pytest.mark.parametrize("retained", [True, False])
def test_dropout_that_is_retained(names, retained):
    ours, theirs = Dropout(0.5, "Residual").eval(), FairseqDropout(0.5, "Residual").eval()
    x = torch.ones(200)
    for module in (ours, theirs):
        options = {"retain_dropout": retained, "retain_dropout_modules": names}
        module.make_generation_fast_(name="a", **options)
    drops = retained and names != ["FeedForward"]
    for module in (ours, theirs):
        assert set(module(x).tolist()) == ({0.0, 2.0} if drops else {1.0})


@pytest.mark.parametrize("names", [None, ["DotProductAttention"], ["Residual"]])
def test_dropout_of_attention_that_is_retained(names):
    mechanism = DotProductAttention(dropout=0.5)
    x, encoded = torch.randn(2, 6, 3, 8).unbind()
    layer = MultiheadCrossAttention(8, 8, 2, mechanism).eval()
    mechanism.make_generation_fast_(retain_dropout=True, retain_dropout_modules=names)
    with torch.no_grad():
        outputs = [layer(x, encoded, incremental_state={})[0] for _ in range(2)]
    assert torch.equal(*outputs) == (names == ["Residual"])


@pytest.mark.parametrize("dim", [8, 7])
@pytest.mark.parametrize("learned", [True, False])
def test_positions(learned, dim):
    theirs = PositionalEmbedding(20, dim, PAD, learned=learned)
    ours = (LearnedPositions if learned else SinusoidalPositions)(20, dim, PAD)
    ours.load_state_dict(theirs.state_dict())
    tokens = torch.tensor([[4, 5, 6, 7], [1, 1, 4, 5], [4, 5, 1, 1]])
    torch.testing.assert_close(ours(tokens), theirs(tokens))
