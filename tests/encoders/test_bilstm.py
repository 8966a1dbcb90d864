import pytest
import torch

from fairseq_posattn.encoders.bilstm import BiLSTM

PADDING = torch.tensor(
    [[False, True, True, True], [False, False, False, False], [False, False, False, True]]
)


def by_word(cell, words, backwards):
    """One direction of one layer, a word at a time; its gates are i, f, g and o in order."""
    weight_x, weight_h, bias_x, bias_h = cell
    features = weight_h.size(1)
    h = c = torch.zeros(features, dtype=words.dtype)
    states = [None] * len(words)
    order = range(len(words))
    for t in reversed(order) if backwards else order:
        i, f, g, o = (weight_x @ words[t] + bias_x + weight_h @ h + bias_h).chunk(4)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        states[t] = h
    return torch.stack(states)


@pytest.mark.parametrize("layers", [1, 2])
def test_states_of_both_directions_side_by_side(layers):
    torch.manual_seed(0)
    module = BiLSTM(3, 4, layers).double()
    words = torch.randn(3, 4, 3, dtype=torch.float64)
    states = module(words, PADDING)
    for row, length in enumerate([1, 4, 3]):
        expected = words[row, :length]
        for layer in range(layers):
            forward, backward = module.lstm.all_weights[2 * layer : 2 * layer + 2]
            expected = torch.cat(
                [by_word(forward, expected, False), by_word(backward, expected, True)], dim=-1
            )
        torch.testing.assert_close(states[row, :length], expected)
        assert states[row, length:].eq(0).all()


def test_without_padding():
    module = BiLSTM(3, 4)
    words = torch.randn(2, 5, 3)
    none = torch.zeros(2, 5, dtype=torch.bool)
    torch.testing.assert_close(module(words), module(words, none))


def test_nothing_but_padding_gives_finite_states_and_gradients():
    module = BiLSTM(3, 4)
    padding = torch.tensor([[True, True], [False, False]])
    states = module(torch.randn(2, 2, 3), padding)
    states.sum().backward()
    assert states.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())


def test_odd_features_are_refused():
    with pytest.raises(ValueError, match="5 features cannot be halved"):
        BiLSTM(3, 5)
