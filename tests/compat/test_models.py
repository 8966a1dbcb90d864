"""fairseq's own models have the same output in each batch, search and training."""

from copy import deepcopy

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.bart import BARTModel
from fairseq.models.lstm import LSTMEncoder
from fairseq.models.nat.nonautoregressive_transformer import NATransformerDecoder
from fairseq.models.transformer_align import TransformerAlignModel
from fairseq.modules.dynamic_convolution import DynamicConv1dTBC, DynamicConv_scripatable
from fairseq.sequence_generator import SequenceGenerator
from small_models import build
from torch.nn import functional as F

PAD = 1


def test_bart_reads_all_sources_after_a_search(restore):
    """Two beams read one source, but not two sentences of training."""
    model, dictionary = build(BARTModel, "bart_base")
    source = torch.tensor([[4, 5, 6, 2], [7, 8, 9, 2], [6, 6, 4, 2], [9, 4, 9, 2]])
    lengths = torch.full((4,), 4)
    before, _ = model(source, lengths, source)
    generator = SequenceGenerator([model], dictionary, beam_size=2, max_len_b=5)
    sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}

    def search():
        results = generator.generate([model], sample)
        return [[(h["tokens"].tolist(), h["score"].item()) for h in both] for both in results]

    results = search()
    after, _ = model(source, lengths, source)
    torch.testing.assert_close(after, before)
    assert search() == results
    restore(BARTModel, "forward")
    after, _ = model(source, lengths, source)
    assert not torch.allclose(after[1::2], before[1::2], atol=1e-3)


def test_a_search_aligns_by_the_trained_heads(restore):
    """The first head of the lower layer, not the mean of the upper layer's."""
    source, lengths = torch.tensor([[4, 5, 6, 7, 8, 2], [PAD, 9, 4, 9, 5, 2]]), torch.tensor([6, 5])
    heads = ("--decoder-layers=2", "--alignment-layer=0", "--alignment-heads=1")

    def difference():
        """Return that of a copy's weights in a search from those that the criterion trains."""
        model, dictionary = build(TransformerAlignModel, "transformer_align", *heads)
        generator = SequenceGenerator([deepcopy(model)], dictionary, beam_size=1, max_len_b=6)
        sample = {"net_input": {"src_tokens": source, "src_lengths": lengths}}
        differences = []
        for row, (best,) in enumerate(generator.generate(None, sample)):
            before = best["tokens"].roll(1)[None]  # the end begins it
            _, trained = model(source[row, None], lengths[row, None], before)
            differences.append((trained["attn"][0][0] - best["attention"].t()).abs().max())
        return max(differences)

    assert difference() < 1e-5
    restore(TransformerAlignModel, "__init__")
    assert difference() > 0.1


@pytest.mark.parametrize("layer", ["-1", "2"])
def test_a_search_without_a_trained_layer_aligns_by_the_last(layer):
    model, dictionary = build(
        TransformerAlignModel,
        "transformer_align",
        "--decoder-layers=2",
        f"--alignment-layer={layer}",
    )
    source = {"src_tokens": torch.tensor([[4, 5, 2]]), "src_lengths": torch.tensor([3])}
    ((best,),) = SequenceGenerator([model], dictionary, 1).generate(None, {"net_input": source})
    assert best["attention"].shape == (3, len(best["tokens"]))


def test_sources_are_copied_from_behind_their_padding(restore):
    """``--src-embedding-copy``: a batch copies what each sentence does alone."""
    long, short = torch.randn(5, 3), torch.randn(2, 3)
    words = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]]).bool()  # of the translations

    def copied(source, is_word, words):
        return NATransformerDecoder.forward_copying_source(None, source, is_word.bool(), words)

    alone = copied(short[None], torch.ones(1, 2), words[1:, :3])
    batch = torch.stack([long, F.pad(short, (0, 0, 3, 0), value=9.0)])
    is_word = torch.tensor([[1, 1, 1, 1, 1], [0, 0, 0, 1, 1]])
    assert copied(batch, is_word, words)[1, :3].equal(alone[0])
    assert set(alone[0, :, 0].tolist()) == set(short[:, 0].tolist())
    restore(NATransformerDecoder, "forward_copying_source")
    assert copied(batch, is_word, words)[1, 0].eq(9.0).all()


def test_an_lstm_pads_its_outputs_as_the_source(restore):
    """Alignments index the source; fairseq's LSTM pads on the right."""
    encoder = LSTMEncoder(Dictionary(), embed_dim=4, hidden_size=4, num_layers=1).eval()
    source, lengths = torch.tensor([[3, 0, 3, 2], [PAD, PAD, 0, 2]]), torch.tensor([4, 2])
    alone, *_ = encoder(source[1:, 2:], lengths[1:])
    outputs, _, _, padding = encoder(source, lengths)
    torch.testing.assert_close(outputs[2:, 1:], alone)
    assert padding.t().equal(source == PAD)
    restore(LSTMEncoder, "forward")
    outputs, _, _, padding = encoder(source, lengths)
    torch.testing.assert_close(outputs[:2, 1:], alone)
    assert not padding.t().equal(source == PAD)


@pytest.mark.parametrize("length", [3, 5, 7])
def test_dynamic_convolutions_have_the_kernels_of_generation(length, restore):
    """The kernel of five positions may be longer than the text."""
    layer = DynamicConv_scripatable(4, 5, padding_l=4, num_heads=2, weight_softmax=True)
    paper = DynamicConv1dTBC(4, 5, padding_l=4, num_heads=2, weight_softmax=True)
    paper.load_state_dict(layer.state_dict(), strict=False)
    inputs, query, state = torch.randn(length, 2, 4), torch.randn(length, 2, 4), {}
    steps = zip(inputs.split(1), query.split(1), strict=True)
    generated = torch.cat([layer(x, state, query=q) for x, q in steps])
    torch.testing.assert_close(layer(inputs, query=query), generated)
    torch.testing.assert_close(paper(inputs, query=query), generated)
    restore(DynamicConv_scripatable, "forward")
    assert torch.allclose(layer(inputs, query=query), generated) == (length >= 5)


@pytest.fixture
def deterministic():
    """Have PyTorch fill memory that is not initialized with NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def test_the_unused_bias_of_fairseqs_convolutions_is_never_nan(deterministic):
    layer = DynamicConv_scripatable(4, conv_bias=False)
    assert layer.conv_bias.eq(0).all()
    layer.load_state_dict(layer.state_dict() | {"conv_bias": torch.full((1, 1, 4), torch.nan)})
    assert layer.conv_bias.eq(0).all()
    used = DynamicConv_scripatable(4, conv_bias=True)
    used.load_state_dict(used.state_dict() | {"conv_bias": torch.ones(1, 1, 4)})
    assert used.conv_bias.eq(1).all()
