import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_posattn.attention import DotProductAttention
from fairseq_posattn.model.multihead import MultiheadCrossAttention, MultiheadSelfAttention


@pytest.mark.parametrize("length", [1, 3])
def test_hypotheses_that_share_an_encoding_attend_as_with_one_each(length):
    torch.manual_seed(0)
    attention = MultiheadCrossAttention(8, 6, 2, DotProductAttention()).double()
    encoded = torch.randn(5, 2, 6).double()  # [S, B, C]
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    x = torch.randn(length, 2 * 3, 8).double()  # three hypotheses of each sentence
    output, weights = attention(x, encoded, padding, need_weights=True)
    own = encoded.repeat_interleave(3, 1), padding.repeat_interleave(3, 0)
    expected, expected_weights = attention(x, *own, need_weights=True)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)
    assert weights.shape == (6, 2, length, 5)


class _Copied(TorchDispatchMode):
    """Recorder of the sizes of copied tensors."""

    def __init__(self):
        super().__init__()
        self.sizes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.clone.default, torch.ops.aten.copy_.default):
            self.sizes.append(args[0].numel())
        return func(*args, **(kwargs or {}))


def test_the_encoding_is_copied_once_and_not_at_each_step():
    attention = MultiheadCrossAttention(8, 8, 2, DotProductAttention()).eval()
    encoded, state = torch.randn(50, 3, 8), {}
    with torch.no_grad():
        for step in range(3):
            with _Copied() as copied:
                attention(torch.randn(1, 3 * 2, 8), encoded, incremental_state=state)
            assert (max(copied.sizes) >= encoded.numel()) == (step == 0)


def test_repeated_orders_follow_each_other():
    attention = MultiheadSelfAttention(8, 2, DotProductAttention(causal=True)).eval()
    start, newest = torch.randn(1, 3, 8), torch.randn(1, 3, 8)
    orders = torch.tensor([2, 0, 1]), torch.tensor([0, 0, 2])
    outputs = []
    for successive in (orders, [orders[0][orders[1]]]):
        state = {}
        attention(start, incremental_state=state)
        for order in successive:
            attention.reorder_incremental_state(state, order)
        outputs.append(attention(newest, incremental_state=state)[0])
    torch.testing.assert_close(*outputs)


def test_caches_of_all_layers_are_allocated_once():
    """Every order copies rows into a free buffer, which all layers share."""
    layers = [MultiheadSelfAttention(8, 2, DotProductAttention(causal=True)) for _ in range(3)]
    state, buffers = {}, set()
    with torch.no_grad():
        for step in range(12):
            for layer in layers:
                layer(torch.randn(1, 4, 8), incremental_state=state)
                cached = state[layer, "attention"]
                buffers |= {buffer.data_ptr() for buffer in cached.buffers.values()}
                order = torch.arange(4).roll(step % 2)  # the identity at times
                layer.reorder_incremental_state(state, order)
    assert len(buffers) == 2 * len(layers) + 1
