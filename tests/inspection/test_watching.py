"""The weights that are recorded while a model runs."""

import pytest
import torch

from fairseq_posattn.inspection import measures
from fairseq_posattn.inspection.attention_layers import watching
from fairseq_posattn.inspection.measures import batches_of_one_length


def run_watched(encoder, layers, sentence, observe):
    with watching(layers, observe):
        encoder(src_tokens=sentence[None], src_lengths=torch.tensor([len(sentence)]))


def collected_weights(encoder, layers, sentence):
    weights = {}
    observe = lambda index, call: weights.update({index: call.layer.weights(call.result)[0]})  # noqa: E731
    run_watched(encoder, layers, sentence, observe)
    return [weights[index] for index in range(len(layers))]


def direct_weights(encoder, tokens):
    """Weights ``[B, H, T, T]`` of every attention sublayer, called one after another."""
    padding = tokens.eq(encoder.padding_idx)
    x, _ = encoder.forward_embedding(tokens)
    x = (x * (1 - padding[..., None].type_as(x))).transpose(0, 1)  # [T, B, C]
    result = []
    for layer in encoder.layers:
        for residual in layer.sublayers[:-1]:
            normalized = residual.layer_norm(x) if residual.normalize_before else x
            _, weights = residual.sublayer(normalized, padding, need_weights=True)
            result.append(weights)
            x, _ = residual(x, padding)
        x, _ = layer.sublayers[-1](x)
    return result


@pytest.mark.parametrize("names", ["dman,san,ffn", "da,ffn", "mtsa,ffn"])
@pytest.mark.parametrize("normalize_before", [False, True])
def test_weights_equal_those_of_a_direct_call(build, sentences, names, normalize_before):
    encoder, layers = build(names, encoder_normalize_before=normalize_before)
    for sentence in sentences:
        expected = direct_weights(encoder, sentence[None])
        result = collected_weights(encoder, layers, sentence)
        for weights, direct in zip(result, expected, strict=True):
            torch.testing.assert_close(weights, direct[0])


def test_hooks_are_removed(build, sentences):
    encoder, layers = build("dman,san,ffn")

    def fail(index, call):
        raise RuntimeError("while measuring")

    collected_weights(encoder, layers, sentences[0])
    with pytest.raises(RuntimeError, match="while measuring"):
        run_watched(encoder, layers, sentences[0], fail)
    for module in encoder.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks


def test_batches_have_one_length_and_every_sentence(monkeypatch, sentences):
    monkeypatch.setattr(measures, "TOKENS_AT_ONCE", 10)
    batches = list(batches_of_one_length(sentences))
    assert [tuple(batch.shape) for batch in batches] == [(1, 1), (1, 3), (2, 5), (1, 5), (1, 7)]
    rows = sorted(row.tolist() for batch in batches for row in batch)
    assert rows == sorted(sentence.tolist() for sentence in sentences)
