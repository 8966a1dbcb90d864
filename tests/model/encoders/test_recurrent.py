from functools import partial

import pytest
import torch
from torch import nn

from fairseq_posattn.model.encoders.recurrent import NETWORKS, Recurrent

PADDING = torch.tensor(
    [[False, True, True, True], [False, False, False, False], [False, False, False, True]]
)
MODULES = {**NETWORKS, "gru": partial(Recurrent, nn.GRU)}
every = pytest.mark.parametrize("name", MODULES)


def lstm_step(x, h, state):
    """Return an LSTM's states; the gates are i, f, g and o in order."""
    (i, f, g, o), c = (x + h).chunk(4), state[1]
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_step(x, h, state):
    """Reset, update and new, where the reset gate looks at what the hidden state is mapped to."""
    (xr, xz, xn), (hr, hz, hn) = x.chunk(3), h.chunk(3)
    z = torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + z * state[0], None


STEPS = {"LSTM": lstm_step, "GRU": gru_step}


def by_token(mode, cell, tokens, backwards):
    """One direction of one layer, a token at a time."""
    weight_x, weight_h, bias_x, bias_h = cell
    state = (torch.zeros(weight_h.size(1), dtype=tokens.dtype),) * 2
    states = [None] * len(tokens)
    order = range(len(tokens))
    for t in reversed(order) if backwards else order:
        x, h = weight_x @ tokens[t] + bias_x, weight_h @ state[0] + bias_h
        state = STEPS[mode](x, h, state)
        states[t] = state[0]
    return torch.stack(states)


@pytest.mark.parametrize("layers", [1, 2])
@every
def test_equals_the_network_word_by_token(name, layers):
    torch.manual_seed(0)
    module = MODULES[name](3, 4, layers).double()
    (network,) = module.children()
    tokens = torch.randn(3, 4, 3, dtype=torch.float64)
    states = module(tokens, PADDING)
    directions = 1 + network.bidirectional
    for row, length in enumerate([1, 4, 3]):
        expected = tokens[row, :length]
        for layer in range(layers):
            cells = network.all_weights[directions * layer : directions * (layer + 1)]
            states_of = [
                by_token(network.mode, cell, expected, back) for back, cell in enumerate(cells)
            ]
            expected = torch.cat(states_of, dim=-1)
        torch.testing.assert_close(states[row, :length], expected)
        assert states[row, length:].eq(0).all()


@every
def test_nothing_but_padding_gives_finite_states_and_gradients(name):
    module = MODULES[name](3, 4)
    padding = torch.tensor([[True, True], [False, False]])
    states = module(torch.randn(2, 2, 3), padding)
    states.sum().backward()
    assert states.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
