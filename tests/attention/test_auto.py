"""The self check before ``auto`` uses kernels, and its choice of an implementation."""

import dataclasses
import inspect
import logging

import pytest
import torch
from kernel_checks import DEVICE, require_kernels

from fairseq_posattn.attention import auto, declare, softmax
from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.cases import CASES, KERNELS, Sizes

require_kernels()


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    monkeypatch.setattr(auto, "_reasons", {})
    monkeypatch.setattr(auto, "LENGTHS", (12,))
    monkeypatch.setattr(auto, "BATCH", 1)


def reason_of(name="dman", spoil=lambda context, *_: context, dtype=torch.float32, **kind):
    """Return the self check's reason for a call; ``spoil`` changes the kernels' results."""
    case = KERNELS[name]

    def attend(call, **arguments):
        context = case.attention.attend(call, **arguments)
        return spoil(context, call, arguments) if call.impl == "triton" else context

    shapes, sizes = case.attention.shapes, Sizes(1, 2, 3, 3, kind.get("features", 16))
    arguments = case.arguments(sizes, dtype, DEVICE)
    parameters = inspect.signature(case.function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    padding = torch.zeros(1, 3, dtype=torch.bool, device=DEVICE)
    padding = padding if kind.get("padded", True) else None
    call = Call("auto", padding, kind.get("causal", False), kind.get("dropout_p", 0.0))
    example = auto.example_of(shapes, call, {**defaults, **arguments})
    return auto.self_check_reason(case.attention.name, attend, shapes, example)


def test_kernels_are_checked_whatever_the_default_device(monkeypatch):
    """The check's generator is on the CPU, also where tensors are on a GPU by default."""
    monkeypatch.setattr(auto, "LENGTHS", (12,))
    with torch.device("meta"):
        assert reason_of() is None


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_agree_are_used(name, monkeypatch):
    monkeypatch.setattr(auto, "LENGTHS", (12, 33))  # with one and several tiles backward
    assert reason_of(name, dtype=torch.bfloat16) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [{"features": 128}, {"causal": True}, {"padded": False}, {"dropout_p": 0.3}]
)
def test_the_check_has_the_options_of_the_call(kind):
    calls = []

    def record(context, call, arguments):
        calls.append((call, arguments))
        return context

    assert reason_of(spoil=record, **kind) is None
    for call, arguments in calls:
        assert arguments["value"].size(-1) == kind.get("features", 16)
        assert call.causal == kind.get("causal", False)
        assert (call.key_padding_mask is not None) == kind.get("padded", True)
    assert any(call.dropout_p == 0.3 for call, _ in calls) == ("dropout_p" in kind)


SPOIL = {
    "output": lambda context, *_: context + 0.001,
    "gradient": lambda context, *_: 1.01 * context - 0.01 * context.detach(),
    "nan": lambda context, *_: context * float("nan"),
}


@pytest.mark.parametrize("spoil", SPOIL.values(), ids=SPOIL)
def test_wrong_results_are_reported(spoil, caplog):
    with caplog.at_level(logging.WARNING):
        assert "gave wrong results" in reason_of(spoil=spoil)
    assert "dynamic_mask_attention does not use its Triton kernels for calls with" in caplog.text
    assert "float32, 16 features, padding: the implementation gave wrong results" in caplog.text


def test_tf32_is_a_kind_and_may_round_to_ten_bits(tf32):
    def round_context(context, *_):
        return context + (context.half().float() - context).detach()

    assert reason_of() is None
    assert reason_of(spoil=round_context) is None
    tf32.fp32_precision = "ieee"
    assert reason_of() is None
    assert "gave wrong results" in reason_of(spoil=round_context)
    assert len(auto._reasons) == 4


@pytest.mark.slow
def test_another_dropout_mask_in_the_backward_pass_is_detected(monkeypatch):
    from fairseq_posattn.attention.kernels.distance_scores import attend
    from fairseq_posattn.attention.kernels.launch import Launch
    from fairseq_posattn.attention.kernels.ops import Drawn

    run = Launch.__call__

    def redraw(self, *args):
        if self.kernel is not attend:
            for drawn in (a for a in args if isinstance(a, Drawn)):
                drawn.seed.add_(1)
        run(self, *args)

    monkeypatch.setattr(Launch, "__call__", redraw)
    assert "gave wrong results" in reason_of(dropout_p=0.5)


def test_a_kernel_that_does_not_compile_is_not_used_for_its_kind_only(caplog):
    def fail(context, *_):
        if context.size(-1) == 32:
            raise RuntimeError("no such instruction\nat line 7")
        return context

    with caplog.at_level(logging.WARNING):
        assert reason_of(spoil=fail, features=32).endswith("RuntimeError: no such instruction")
    assert "32 features" in caplog.text
    assert reason_of(spoil=fail, features=16) is None


def test_out_of_memory_decides_nothing():
    def fail(context, *_):
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError):
        reason_of(spoil=fail)
    assert auto._reasons == {}


@pytest.mark.slow
def test_the_check_leaves_the_random_state_and_is_cached():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with torch.inference_mode():
        reason_of(dropout_p=0.5)
    assert torch.rand(3).equal(expected)
    assert list(auto._reasons.values()) == [None]


# The choice of ``auto``


@pytest.fixture
def choose(monkeypatch):
    """Return a function that calls DMAN's as on a GPU, and returns the implementation used."""
    monkeypatch.setattr(declare, "on_gpu", lambda arguments: True)
    monkeypatch.setattr(auto, "self_check_reason", lambda *kind: auto.is_capturing() or None)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    case, used = KERNELS["dman"], []
    attention = dataclasses.replace(case.attention, attend=lambda call, **_: used.append(call.impl))

    def chosen(**options):
        attention({**case.arguments(Sizes(1, 2, 5, 5, 16), torch.float32, DEVICE), **options})
        return used.pop()

    return chosen


def test_auto_uses_kernels_on_a_gpu_unless_weights_are_needed(choose):
    assert choose() == "triton"
    assert choose(need_weights=True) == "reference"


def test_a_choice_while_a_cuda_graph_is_captured_is_not_kept(choose, monkeypatch):
    for captures, used in ((True, "sdpa"), (False, "triton"), (True, "triton")):
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda now=captures: now)
        assert choose() == used


@pytest.mark.parametrize(("library", "longest"), [("torch", 10**4), ("onednn", 255)])
def test_long_texts_on_a_cpu_use_sdpa(monkeypatch, library, longest):
    monkeypatch.setattr(softmax, "library", lambda: library)
    case, used = CASES["san"], []
    record = dataclasses.replace(case.attention, attend=lambda call, **_: used.append(call.impl))

    def chosen(length, **options):
        record({**case.arguments(Sizes(1, 1, length, 1, 1), torch.float32, "cpu"), **options})
        return used.pop()

    assert chosen(255) == chosen(256, dropout_p=0.1) == "reference"
    assert chosen(256) == chosen(256, dropout_p=0.1, training=False) == "sdpa"
    with torch.no_grad():
        assert chosen(127) == chosen(128, need_weights=True) == "reference"
        assert chosen(128) == chosen(longest) == "sdpa"
        assert chosen(256) == ("sdpa" if library == "torch" else "reference")
