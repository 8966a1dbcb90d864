import pytest
import torch

from fairseq_posattn.inspection import collect
from fairseq_posattn.inspection.collect import batches_of_one_length, measure_batch


def weights_of(call):
    return call.weights


def collected_weights(encoder, sublayers, sentence):
    return [weights[0] for weights in measure_batch(encoder, sublayers, sentence[None], weights_of)]


def direct_weights(encoder, tokens):
    """Walk through the encoder by hand: weights of every attention sublayer ``[B, H, T, T]``."""
    padding = tokens.eq(encoder.padding_idx)
    x, _ = encoder.forward_embedding(tokens)
    x = (x * (1 - padding[..., None].type_as(x))).transpose(0, 1)  # [T, B, C]
    found = []
    for layer in encoder.layers:
        for residual in layer.sublayers[:-1]:
            normalised = residual.layer_norm(x) if residual.normalize_before else x
            _, weights = residual.sublayer(normalised, padding, need_weights=True)
            found.append(weights)
            x, _ = residual(x, padding)
        x, _ = layer.sublayers[-1](x)
    return found


@pytest.mark.parametrize("names", ["dman,san,ffn", "da,ffn", "mtsa,ffn"])
@pytest.mark.parametrize("normalize_before", [False, True])
def test_weights_are_those_of_a_direct_call(build, sentences, names, normalize_before):
    encoder, sublayers = build(names, encoder_normalize_before=normalize_before)
    for sentence in sentences:
        expected = direct_weights(encoder, sentence[None])
        found = collected_weights(encoder, sublayers, sentence)
        for weights, direct in zip(found, expected, strict=True):
            torch.testing.assert_close(weights, direct[0])


@pytest.mark.parametrize("left", [True, False])
def test_weights_are_those_of_a_padded_batch_without_its_padding(build, sentences, left):
    encoder, sublayers = build("dman,san,ffn")
    longest = max(map(len, sentences))
    batch = torch.full((len(sentences), longest), encoder.padding_idx)
    places = []
    for row, sentence in zip(batch, sentences, strict=True):
        start = longest - len(sentence) if left else 0
        places.append(slice(start, start + len(sentence)))
        row[places[-1]] = sentence
    in_batch = direct_weights(encoder, batch)
    for index, (sentence, place) in enumerate(zip(sentences, places, strict=True)):
        found = collected_weights(encoder, sublayers, sentence)
        for weights, batched in zip(found, in_batch, strict=True):
            torch.testing.assert_close(weights, batched[index, :, place, place])


def test_only_the_chosen_sublayers_and_in_their_order(build, sentences):
    encoder, sublayers = build("dman,san,ffn")
    everything = collected_weights(encoder, sublayers, sentences[0])
    chosen = collected_weights(encoder, [sublayers[3], sublayers[0]], sentences[0])
    assert torch.equal(chosen[0], everything[3])
    assert torch.equal(chosen[1], everything[0])


def test_the_inputs_of_the_mechanism(build, sentences):
    encoder, (sublayer, *_) = build("san,ffn")
    (calls,) = measure_batch(encoder, [sublayer], sentences[0][None], lambda call: call)
    query, key, value = sublayer.attention.qkv_proj.split(calls.hidden)
    assert calls.mechanism is sublayer.mechanism
    torch.testing.assert_close(calls.key.transpose(1, 2).flatten(2), key)
    torch.testing.assert_close(calls.value.transpose(1, 2).flatten(2), value)


def test_the_model_is_left_as_it_was(build, sentences):
    encoder, sublayers = build("dman,san,ffn")

    def fail(call):
        raise RuntimeError("while measuring")

    collected_weights(encoder, sublayers, sentences[0])
    with pytest.raises(RuntimeError, match="while measuring"):
        measure_batch(encoder, sublayers, sentences[0][None], fail)
    for module in encoder.modules():
        assert not module._forward_hooks and not module._forward_pre_hooks


def test_every_sentence_once_in_batches_of_one_length(monkeypatch, sentences):
    monkeypatch.setattr(collect, "TOKENS_AT_ONCE", 10)
    batches = list(batches_of_one_length(sentences))
    assert [tuple(batch.shape) for batch in batches] == [(1, 1), (1, 3), (2, 5), (1, 5), (1, 7)]
    found = sorted(row.tolist() for batch in batches for row in batch)
    assert found == sorted(sentence.tolist() for sentence in sentences)


def test_fewer_tokens_at_once_of_long_sentences(monkeypatch):
    monkeypatch.setattr(collect, "TOKENS_AT_ONCE", 256)
    sentences = [torch.zeros(128, dtype=torch.long)] * 4  # 256 weights a query, for 64 tokens
    assert [len(batch) for batch in batches_of_one_length(sentences)] == [1, 1, 1, 1]
    sentences = [torch.zeros(64, dtype=torch.long)] * 4
    assert [len(batch) for batch in batches_of_one_length(sentences)] == [4]
