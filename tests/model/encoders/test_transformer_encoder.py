import pytest
import torch
from reference import Draws

from fairseq_posattn.attention.san import DotProductAttention
from fairseq_posattn.model.encoders.transformer import AttentionEncoder, TransformerEncoder

PADDING = torch.tensor([[False, False, False, False], [False, False, False, True]])


@pytest.mark.parametrize("bias", [True, False])
def test_contexts_of_the_heads_side_by_side(bias):
    torch.manual_seed(0)
    module = AttentionEncoder(3, 4, 2, DotProductAttention(), bias).double()
    tokens = torch.randn(2, 4, 3, dtype=torch.float64)
    encoded = module(tokens, PADDING)
    weight = module.qkv_proj.weight.view(3, 2, 2, 3)  # of q, k, v and of each head
    offset = module.qkv_proj.bias.view(3, 2, 2) if bias else torch.zeros(3, 2, 2).double()
    for row, length in enumerate([4, 3]):
        for head in range(2):
            query, key, value = (
                tokens[row, :length] @ weight[part, head].T + offset[part, head]
                for part in range(3)
            )
            expected = (query @ key.T / 2**0.5).softmax(-1) @ value
            result = encoded[row, :length, 2 * head : 2 * head + 2]
            torch.testing.assert_close(result, expected)


def test_drops_before_every_map_of_every_head(monkeypatch):
    module = AttentionEncoder(3, 4, 2, DotProductAttention(), map_dropout=0.4).double()
    tokens = torch.randn(2, 4, 3, dtype=torch.float64)
    draws = Draws(monkeypatch)
    encoded = module(tokens)
    drawn = draws.named(0.4, tokens=(2, 6, 4, 3))["tokens"].unflatten(1, (3, 2))
    weight, offset = module.qkv_proj.weight.view(3, 2, 2, 3), module.qkv_proj.bias.view(3, 2, 2)
    for head in range(2):
        query, key, value = (
            (tokens * drawn[:, part, head]) @ weight[part, head].T + offset[part, head]
            for part in range(3)
        )
        expected = (query @ key.mT / 2**0.5).softmax(-1) @ value
        torch.testing.assert_close(encoded[..., 2 * head : 2 * head + 2], expected)


def test_positions_are_added_to_the_tokens():
    module = AttentionEncoder(4, 4, 2, DotProductAttention(), positions=True)
    plain = AttentionEncoder(4, 4, 2, DotProductAttention())
    plain.load_state_dict(module.state_dict())
    tokens, position = torch.randn(2, 4, 4), torch.arange(4.0)
    waves = [wave(position * step) for step in (1, 0.01) for wave in (torch.sin, torch.cos)]
    expected = plain(tokens + torch.stack(waves, -1), PADDING)
    torch.testing.assert_close(module(tokens, PADDING), expected)


def test_nothing_but_padding_gives_zero():
    module = AttentionEncoder(3, 4, 2, DotProductAttention())
    padding = torch.tensor([[True, True], [False, False]])
    encoded = module(torch.randn(2, 2, 3), padding)
    encoded.sum().backward()
    assert encoded[0].eq(0).all()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_positions_are_added_after_tokens_are_mapped_and_scaled(scale):
    encoder = TransformerEncoder(3, 4, [], positions=True, normalize_after=False, scale=scale)
    tokens, padding = torch.randn(2, 6, 3), torch.zeros(2, 6, dtype=torch.bool)
    added = encoder(tokens, padding) - scale * encoder.input_map(tokens)
    position = torch.arange(6.0)
    waves = [wave(position * step) for step in (1, 0.01) for wave in (torch.sin, torch.cos)]
    expected = torch.stack(waves, -1)
    torch.testing.assert_close(added, expected.expand(2, 6, 4), atol=1e-5, rtol=0)
