import pytest
import torch

from fairseq_posattn.model.encoders.recurrent import NETWORKS

PADDING = torch.tensor(
    [[False, True, True, True], [False, False, False, False], [False, False, False, True]]
)
every = pytest.mark.parametrize("name", NETWORKS)


@pytest.mark.parametrize("layers", [1, 2])
@every
def test_states_of_a_batch_are_pytorchs_of_each_sentence_alone(name, layers):
    torch.manual_seed(0)
    module = NETWORKS[name](3, 4, layers).double()
    (network,) = module.children()
    assert (network.num_layers, network.bidirectional) == (layers, name.startswith("bi"))
    tokens = torch.randn(3, 4, 3, dtype=torch.float64)
    states = module(tokens, PADDING)
    for row, length in enumerate([1, 4, 3]):
        expected, _ = network(tokens[row, :length])
        torch.testing.assert_close(states[row, :length], expected)
        assert states[row, length:].eq(0).all()


@every
def test_nothing_but_padding_gives_finite_states_and_gradients(name):
    module = NETWORKS[name](3, 4)
    padding = torch.tensor([[True, True], [False, False]])
    states = module(torch.randn(2, 2, 3), padding)
    states.sum().backward()
    assert states.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters())
