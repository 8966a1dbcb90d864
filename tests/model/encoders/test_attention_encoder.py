import pytest
import torch
from reference import Draws

from fairseq_posattn.attention.san import DotProductAttention
from fairseq_posattn.model.encoders.transformer import AttentionEncoder

PADDING = torch.tensor([[False, False, False, False], [False, False, False, True]])


@pytest.mark.parametrize("bias", [True, False])
def test_contexts_of_the_heads_side_by_side(bias):
    torch.manual_seed(0)
    module = AttentionEncoder(3, 4, 2, DotProductAttention(), bias).double()
    words = torch.randn(2, 4, 3, dtype=torch.float64)
    encoded = module(words, PADDING)
    weight = module.qkv_proj.weight.view(3, 2, 2, 3)  # of q, k, v and of each head
    offset = module.qkv_proj.bias.view(3, 2, 2) if bias else torch.zeros(3, 2, 2).double()
    for row, length in enumerate([4, 3]):
        for head in range(2):
            query, key, value = (
                words[row, :length] @ weight[part, head].T + offset[part, head] for part in range(3)
            )
            expected = (query @ key.T / 2**0.5).softmax(-1) @ value
            found = encoded[row, :length, 2 * head : 2 * head + 2]
            torch.testing.assert_close(found, expected)


def test_drops_before_every_map_of_every_head(monkeypatch):
    module = AttentionEncoder(3, 4, 2, DotProductAttention(), map_dropout=0.4).double()
    words = torch.randn(2, 4, 3, dtype=torch.float64)
    draws = Draws(monkeypatch)
    encoded = module(words)
    drawn = draws.named(0.4, words=(2, 6, 4, 3))["words"].unflatten(1, (3, 2))
    weight, offset = module.qkv_proj.weight.view(3, 2, 2, 3), module.qkv_proj.bias.view(3, 2, 2)
    for head in range(2):
        query, key, value = (
            (words * drawn[:, part, head]) @ weight[part, head].T + offset[part, head]
            for part in range(3)
        )
        expected = (query @ key.mT / 2**0.5).softmax(-1) @ value
        torch.testing.assert_close(encoded[..., 2 * head : 2 * head + 2], expected)


def test_positions_are_added_to_the_words():
    module = AttentionEncoder(4, 4, 2, DotProductAttention(), positions=True)
    plain = AttentionEncoder(4, 4, 2, DotProductAttention())
    plain.load_state_dict(module.state_dict())
    words, position = torch.randn(2, 4, 4), torch.arange(4.0)
    waves = [wave(position * step) for step in (1, 0.01) for wave in (torch.sin, torch.cos)]
    expected = plain(words + torch.stack(waves, -1), PADDING)
    torch.testing.assert_close(module(words, PADDING), expected)


def test_nothing_but_padding_gives_zero():
    module = AttentionEncoder(3, 4, 2, DotProductAttention())
    padding = torch.tensor([[True, True], [False, False]])
    encoded = module(torch.randn(2, 2, 3), padding)
    encoded.sum().backward()
    assert encoded[0].eq(0).all()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
