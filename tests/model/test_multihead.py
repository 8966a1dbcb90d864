import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_posattn.attention import DotProductAttention, encoded
from fairseq_posattn.model.caches import reorder_caches
from fairseq_posattn.model.multihead import MultiheadCrossAttention, MultiheadSelfAttention


@pytest.mark.parametrize("length", [1, 3])
def test_hypotheses_that_share_an_encoding_attend_as_with_copies(length):
    torch.manual_seed(0)
    attention = MultiheadCrossAttention(8, 6, 2, DotProductAttention()).double()
    encoded = torch.randn(5, 2, 6).double()  # [S, B, C]
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    x = torch.randn(length, 2 * 3, 8).double()  # three hypotheses of each sentence
    output, weights = attention(x, encoded, padding, need_weights=True)
    copies = encoded.repeat_interleave(3, 1), padding.repeat_interleave(3, 0)
    expected, expected_weights = attention(x, *copies, need_weights=True)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)
    assert weights.shape == (6, 2, length, 5)


@pytest.mark.parametrize("impl", ["auto", "reference", "sdpa"])
@pytest.mark.parametrize(("length", "shortest"), [(512, 41), (40, 17), (40, 0)])
def test_stored_encodings_attend_as_new_encodings(monkeypatch, impl, length, shortest):
    # Where oneDNN rounds, and on other processors, it does not multiply batches.
    monkeypatch.setattr(encoded, "goes_to_onednn", lambda query, key: True)
    torch.manual_seed(0)
    attention = MultiheadCrossAttention(8, 6, 2, DotProductAttention(impl=impl)).double().eval()
    source = torch.randn(length, 3, 6).double()
    padding = torch.arange(length) >= torch.tensor([[length], [length - 9], [shortest]])
    state, need_weights = {}, impl != "sdpa"
    with torch.no_grad():
        for order in ([0, 1, 2], [0, 2], [1]):  # sentences that remain
            source, padding = source[:, order], padding[order]
            rows = [2 * sentence + row for sentence in order for row in range(2)]
            reorder_caches(state, torch.tensor(rows))
            x = torch.randn(1, len(rows), 8).double()
            options = {"need_weights": need_weights}
            results = attention(x, source, padding, state, **options)
            for result, expected in zip(
                results, attention(x, source, padding, **options), strict=True
            ):
                torch.testing.assert_close(result, expected)
    keys = state[attention, "attention"]
    assert keys.is_plain == (impl != "sdpa" and shortest > 0)
    assert (keys.key.dim() == 5) == (keys.is_plain and length == 512)


@pytest.mark.parametrize("order", [[0, 2], [0, 2, 3], [3, 0, 1, 2], [1, 1, 2, 0], [3, 3, 0, 1]])
def test_hypotheses_that_an_order_separates_keep_their_encodings(order):
    attention = MultiheadCrossAttention(8, 6, 2, DotProductAttention()).double().eval()
    source, state = torch.randn(5, 2, 6).double(), {}
    with torch.no_grad():
        attention(torch.randn(1, 2, 8).double(), source, incremental_state=state)
        for successive in ([0, 0, 1, 1], order):
            reorder_caches(state, torch.tensor(successive))
        x = torch.randn(1, len(order), 8).double()
        copies = source[:, torch.tensor(order) // 2]
        stored = state[attention, "attention"]
        shared = source.new_empty(5, len(order) // stored.hypotheses, 6)  # its keys are stored
        output = attention(x, shared, incremental_state=state)[0]
        torch.testing.assert_close(output, attention(x, copies)[0])


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


def test_caches_follow_the_orders_of_a_beam_search_in_place():
    layers = [MultiheadSelfAttention(8, 2, DotProductAttention(causal=True)) for _ in range(2)]
    state, buffers, expected = {}, {}, [torch.empty(0, 6, 8)] * 2
    successive = [
        [[0, 0, 1, 3, 5, 4]],
        [[0, 0, 1, 3, 3, 4], [1, 0, 2, 4, 4, 3]],
        [[2, 2, 2, 3, 3, 3], [2, 1, 0]],  # a sentence is dropped
        [[0, 0, 1]],
        [[2, 1, 1]],
    ]
    with torch.no_grad():
        for orders in successive:
            for number, layer in enumerate(layers):
                x = torch.randn(1, expected[number].size(1), 8)
                layer(x, incremental_state=state)
                expected[number] = torch.cat([expected[number], layer.qkv_proj.split(x)[1]])
                buffer = state[layer, "attention"].buffers["key"]
                buffers[buffer.data_ptr()] = buffer
            for order in map(torch.tensor, orders):
                reorder_caches(state, order)
                for number, layer in enumerate(layers):
                    expected[number] = expected[number][:, order]
                    cached = state[layer, "attention"].tensors["key"]
                    torch.testing.assert_close(cached, expected[number])
    assert len(buffers) == 2 * len(layers)


@pytest.mark.parametrize("steps", [(1,) * 80, (40, 1, 30, 50)])
def test_a_cache_that_grows_keeps_every_position(steps):
    layer, state = MultiheadSelfAttention(8, 2, DotProductAttention(causal=True)), {}
    x = torch.randn(sum(steps), 3, 8)
    with torch.no_grad():
        for part in x.split(steps):
            output = layer(part, incremental_state=state)[0]
        cached = state[layer, "attention"].tensors["key"]
        torch.testing.assert_close(cached, layer.qkv_proj.split(x)[1])
        torch.testing.assert_close(output[-1], layer(x)[0][-1])


def test_a_cache_keeps_positions_with_and_without_gradients():
    layer, state = MultiheadSelfAttention(8, 2, DotProductAttention(causal=True)), {}
    x = torch.randn(4, 3, 8)
    for part, has_gradients in zip(x.split(1), (False, True, False, False), strict=True):
        with torch.set_grad_enabled(has_gradients):
            layer(part, incremental_state=state)
    cached = state[layer, "attention"].tensors["key"]
    torch.testing.assert_close(cached, layer.qkv_proj.split(x)[1])
