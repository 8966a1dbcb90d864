"""Checks of kernels, on a GPU or else in Triton's interpreter."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from reference import gradients

from fairseq_posattn.attention.cases import KERNELS, Sizes

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def require_kernels():
    """Skip tests where neither a GPU nor Triton's interpreter can run kernels."""
    triton = pytest.importorskip("triton")
    is_old = tuple(map(int, triton.__version__.split(".")[:2])) < (3, 7)
    if DEVICE == "cpu" and is_old and np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        reason = "Triton's interpreter fails with NumPy 2.4 before Triton 3.7"
        pytest.skip(reason, allow_module_level=True)


def padding_of(batch, length):
    """Return a padding mask: left, right, and a last sentence of padding only."""
    padding = torch.zeros(batch, length, dtype=torch.bool, device=DEVICE)
    padding[0, : length // 3] = True
    if batch > 2:
        padding[1, length - length // 4 :] = True
    padding[-1] |= batch > 1
    return padding


def call(
    name, queries, keys=None, features=16, dtype=torch.float32, sizes=(2, 2), change=None, **options
):
    """Return a function of tensors alone that calls the kernels, and those tensors.

    Args:
        sizes: batch and heads.
        change: functions by name of a tensor, which modify it in place or return another.
        options: arguments that replace the case's, and options of the call.
    """
    require_kernels()
    case = KERNELS[name]
    if "mask" in options:
        case = replace(case, masks=())
    arguments = case.arguments(Sizes(*sizes, queries, keys or queries, features), dtype, DEVICE)
    for argument, modify in (change or {}).items():
        tensor = arguments[argument].detach()
        changed = modify(tensor)
        arguments[argument] = (tensor if changed is None else changed.to(dtype)).requires_grad_()
    arguments |= options
    fixed = {*options, "mask"}
    names = [n for n, a in arguments.items() if torch.is_tensor(a) and n not in fixed]

    def attend(*tensors, **options):
        return case(
            {**arguments, **dict(zip(names, tensors, strict=True)), "impl": "triton"} | options
        )

    return attend, [arguments[name] for name in names]


def assert_as_exact_as_the_reference(kernel, reference, tensors, exact):
    """Compare outputs and all gradients with the reference in float64.

    Allowed are four times the largest error of the reference in the same precision, and two
    roundings of the largest number: 16 in float32, for a GPU's exponentials. Those of a sum grow as
    the root of its size.
    """
    results = []
    for function, arguments in ((kernel, tensors), (reference, exact), (reference, tensors)):
        output = function(*arguments)
        results.append((output, *gradients(output, arguments)))
    assert results[0][0].dtype == tensors[0].dtype
    largest = 1 + max(result.abs().max().item() for result in results[1])
    eps = torch.finfo(tensors[0].dtype).eps
    rounding = (16 if tensors[0].dtype == torch.float32 else 2) * eps * largest
    for number, (ours, theirs, rough) in enumerate(zip(*results, strict=True)):
        assert ours.isfinite().all()
        summands = max(1.0, output.numel() / ours.numel())
        allowed = 4 * (rough.double() - theirs).abs().max().item() + rounding * math.sqrt(summands)
        error = (ours.double() - theirs).abs().max().item()
        assert error <= allowed, f"tensor {number}: error {error:.2e}, allowed {allowed:.2e}"


def assert_frequency(count, trials, probability):
    """Within five standard errors."""
    error = 5 * math.sqrt(probability * (1 - probability) / trials)
    assert abs(count / trials - probability) <= error
