"""Attention one head after the other: the same numbers as all heads at once, in less memory."""

import pytest
import torch
from oracles import loops, tensors_of
from reference import PADDING, LargestTensor, assert_same_with_gradients, gradients

from fairseq_posattn.attention import by_heads
from fairseq_posattn.attention.cases import CASES, Sizes

served = pytest.mark.parametrize("name", ["san", "dman"])


@pytest.fixture
def of_any_size(monkeypatch):
    monkeypatch.setattr(by_heads, "FEWEST_PAIRS", 0)


@pytest.fixture
def heads(monkeypatch):
    """Counts the calls that go by heads."""
    served = []
    serve = by_heads.attention_by_heads
    monkeypatch.setattr(
        "fairseq_posattn.attention.softmax.attention_by_heads",
        lambda *arguments: served.append(arguments) or serve(*arguments),
    )
    return served


@served
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("queries", [1, 3, 5])
def test_equals_the_equation(of_any_size, heads, name, causal, queries):
    arguments = CASES[name].arguments(Sizes(queries=queries))
    output = CASES[name](arguments, key_padding_mask=PADDING, causal=causal)
    assert heads
    assert_same_with_gradients(
        output, loops(name, arguments, PADDING, causal), tensors_of(arguments)
    )


@served
def test_a_query_without_keys_gets_zero_and_gives_no_gradient(of_any_size, heads, name):
    arguments = CASES[name].arguments(Sizes())
    output = CASES[name](arguments, key_padding_mask=PADDING)
    assert heads
    assert output[3].eq(0).all()
    assert all(g.eq(0).all() for g in gradients(output[3], tensors_of(arguments)))


@served
def test_drops_weights(of_any_size, monkeypatch, name):
    drawn = []

    def draw(x, p):
        drawn.append(torch.rand(x.shape, dtype=torch.float64) >= p)
        return drawn[-1]

    monkeypatch.setattr(by_heads, "draw_kept", draw)
    arguments = CASES[name].arguments(Sizes())
    output = CASES[name](arguments, key_padding_mask=PADDING, dropout_p=0.4)
    _, weights = CASES[name](arguments, key_padding_mask=PADDING, need_weights=True)
    kept = torch.stack(drawn).view_as(weights)
    assert kept.any() and not kept.all()
    assert_same_with_gradients(
        output, (weights * kept / 0.6) @ arguments["value"], tensors_of(arguments)
    )


@served
def test_without_gradients_only_one_head_has_its_pairs_in_memory(of_any_size, name):
    sizes = Sizes(batch=2, heads=4, queries=32, keys=32)
    arguments = CASES[name].arguments(sizes)
    expected = CASES[name](arguments, key_padding_mask=torch.zeros(2, 32, dtype=torch.bool))
    with torch.no_grad(), LargestTensor() as largest:
        output = CASES[name](arguments)
    torch.testing.assert_close(output, expected)
    assert largest.elements <= 2 * 32 * 32  # scores, and what else is needed at a time


@served
def test_the_context_lies_as_layers_join_the_heads(of_any_size, name):
    context = CASES[name](CASES[name].arguments(Sizes()))
    assert context.permute(2, 0, 1, 3).is_contiguous()


@served
@pytest.mark.parametrize(
    ("length", "threads", "options", "by_head"),
    [
        (256, 1, {}, True),
        (255, 1, {}, False),
        (256, 2, {}, False),
        (512, 4, {}, True),
        (256, 1, {"need_weights": True}, False),
        (256, 1, {"impl": "sdpa"}, False),
        (256, 1, {"dropout_p": 1.0}, False),
    ],
)
def test_whether_a_call_goes_by_heads(heads, monkeypatch, name, length, threads, options, by_head):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    arguments = CASES[name].arguments(Sizes(batch=1, heads=2, queries=length, keys=length))
    CASES[name](arguments, **options)
    assert bool(heads) == by_head


@served
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_does_not(of_any_size, heads, name, dtype):
    CASES[name](CASES[name].arguments(Sizes(), dtype))
    assert not heads
