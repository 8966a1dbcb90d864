import logging

import pytest
import torch
from kernel_checks import DEVICE

from fairseq_posattn.attention.kernels import trial

pytest.importorskip("triton")


@pytest.fixture(autouse=True)
def untried():
    trial.trial_obstacle.cache_clear()
    yield
    trial.trial_obstacle.cache_clear()


def spoil(monkeypatch, change):
    """Let the kernels of DMAN return something else."""
    from fairseq_posattn.attention.kernels import dman as dynamic_mask

    right = dynamic_mask.fused_dynamic_mask_attention
    monkeypatch.setattr(
        dynamic_mask,
        "fused_dynamic_mask_attention",
        lambda *args, **options: change(right(*args, **options)),
    )


def try_dynamic_mask():
    return trial.trial_obstacle("dynamic mask attention", torch.float32, torch.device(DEVICE))


@pytest.mark.parametrize("mechanism", trial.TRIALS)
def test_kernels_that_agree_are_taken(mechanism):
    assert trial.trial_obstacle(mechanism, torch.bfloat16, torch.device(DEVICE)) is None


def test_a_wrong_output_is_noticed(monkeypatch, caplog):
    spoil(monkeypatch, lambda context: context + 0.001)
    with caplog.at_level(logging.WARNING):
        assert "gave wrong results" in try_dynamic_mask()
    assert "dynamic mask attention are left aside" in caplog.text


def test_a_wrong_gradient_is_noticed(monkeypatch):
    spoil(monkeypatch, lambda context: 1.01 * context - 0.01 * context.detach())
    assert "gave wrong results" in try_dynamic_mask()


def test_not_a_number_is_noticed(monkeypatch):
    spoil(monkeypatch, lambda context: context * float("nan"))
    assert "gave wrong results" in try_dynamic_mask()


def test_a_kernel_that_does_not_compile_is_left_aside_in_one_line(monkeypatch):
    def fail(context):
        raise RuntimeError("no such instruction\nat line 7")

    spoil(monkeypatch, fail)
    obstacle = try_dynamic_mask()
    assert obstacle.endswith("RuntimeError: no such instruction")


def test_trials_draw_no_random_numbers_of_others():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    with torch.inference_mode():
        try_dynamic_mask()
    assert torch.rand(3).equal(expected)
