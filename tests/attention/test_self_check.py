"""Whether kernels are checked before ``auto`` takes them, and what comes of it."""

import dataclasses
import logging

import pytest
import torch
from kernel_checks import DEVICE

from fairseq_posattn.attention import self_check
from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.cases import KERNELS, Sizes

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def unchecked(monkeypatch):
    monkeypatch.setattr(self_check, "_reasons", {})
    monkeypatch.setattr(self_check, "LENGTHS", (12, 70))  # of one tile and of several
    monkeypatch.setattr(self_check, "BATCH", 1)


def reason_of(
    name="dman",
    spoil=None,
    padded=True,
    causal=False,
    dropout_p=0.0,
    features=16,
    dtype=torch.float32,
):
    """What the self check says to a call; ``spoil`` changes what the kernels return."""
    case = KERNELS[name]
    attention, right = case.attention, case.attention.attend
    if spoil is not None:

        def attend(call, **arguments):
            context = right(call, **arguments)
            return spoil(context, call, arguments) if call.impl == "triton" else context

        attention = dataclasses.replace(attention, attend=attend)
    arguments = case.arguments(Sizes(1, 2, 3, 3, features), dtype, DEVICE)
    defaults = {
        "dman": {},
        "da": {"mapping": "learnable_sigmoid", "adjustment": "early_multiply"}
        | {"clip_threshold": 1.0},
        "mtsa": {"token_scale": "log_sigmoid", "source_scale": "identity"},
        "mtsa_identity": {"source_scale": "identity", "mask": None},
        "mpsan": {"constant": 5.0},
    }[name]
    padding = torch.zeros(1, 3, dtype=torch.bool, device=DEVICE) if padded else None
    call = Call("auto", padding, causal, dropout_p)
    return self_check.self_check_reason(attention, call, {**defaults, **arguments})


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_that_agree_are_taken(name):
    assert reason_of(name, dtype=torch.bfloat16) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [{"features": 128}, {"causal": True}, {"padded": False}, {"dropout_p": 0.3}]
)
def test_calls_are_checked_as_they_are_made(kind):
    """With their heads, causal, without padding, with dropout."""
    calls = []

    def note(context, call, arguments):
        calls.append((call, arguments))
        return context

    assert reason_of(spoil=note, **kind) is None
    for call, arguments in calls:
        assert arguments["value"].size(-1) == kind.get("features", 16)
        assert call.causal == kind.get("causal", False)
        assert (call.key_padding_mask is not None) == kind.get("padded", True)
    assert any(call.dropout_p == 0.3 for call, _ in calls) == ("dropout_p" in kind)


def test_a_wrong_output_is_noticed_and_said(caplog):
    with caplog.at_level(logging.WARNING):
        assert "gave wrong results" in reason_of(spoil=lambda context, *_: context + 0.001)
    assert "dynamic_mask_attention does not use its Triton kernels for calls with" in caplog.text
    assert "float32, 16 features, padding: the implementation gave wrong results" in caplog.text


def test_a_wrong_gradient_is_noticed():
    wrong = reason_of(spoil=lambda context, *_: 1.01 * context - 0.01 * context.detach())
    assert "gave wrong results" in wrong


def test_tf32_is_checked_apart_and_may_round_to_ten_bits(tf32):
    def round_context(context, *_):
        return context + (context.half().float() - context).detach()

    assert reason_of() is None
    assert reason_of(spoil=round_context) is None
    tf32.fp32_precision = "ieee"
    assert reason_of() is None
    assert "gave wrong results" in reason_of(spoil=round_context)
    assert len(self_check._reasons) == 4


def test_not_a_number_is_noticed():
    assert "gave wrong results" in reason_of(spoil=lambda context, *_: context * float("nan"))


@pytest.mark.slow
def test_dropping_something_else_on_the_way_back_is_noticed(monkeypatch):
    """A kernel that draws again at every launch."""
    from fairseq_posattn.attention.kernels import distance_attention, distance_scores
    from fairseq_posattn.attention.kernels.tile import Drawn

    class Redrawing:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            def launch(*args, **options):
                for drawn in (a for a in args if isinstance(a, Drawn)):
                    drawn.seed.add_(1)
                return self.kernel[grid](*args, **options)

            return launch

    for kernel in ("differentiate_keys", "differentiate_whole"):
        redrawing = Redrawing(getattr(distance_scores, kernel))
        monkeypatch.setattr(distance_scores, kernel, redrawing)
    unkept = distance_attention.plan_of.__wrapped__  # plans that are kept have the kernels' own
    monkeypatch.setattr(distance_attention, "plan_of", unkept)
    assert "gave wrong results" in reason_of(dropout_p=0.5)


def test_a_kernel_that_does_not_compile_is_left_aside_for_its_kind_alone(caplog):
    def fail(context, *_):
        if context.size(-1) == 32:
            raise RuntimeError("no such instruction\nat line 7")
        return context

    with caplog.at_level(logging.WARNING):
        assert reason_of(spoil=fail, features=32).endswith("RuntimeError: no such instruction")
    assert "32 features" in caplog.text
    assert reason_of(spoil=fail, features=16) is None


def test_where_memory_is_short_nothing_is_decided():
    def fail(context, *_):
        raise torch.OutOfMemoryError("no room")

    with pytest.raises(torch.OutOfMemoryError):
        reason_of(spoil=fail)
    assert self_check._reasons == {}


@pytest.mark.slow
def test_it_draws_no_random_numbers_of_others_and_keeps_what_it_found():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with torch.inference_mode():
        reason_of(dropout_p=0.5)
    assert torch.rand(3).equal(expected)
    (found,) = self_check._reasons.values()
    assert found is None
