"""Inputs, gradients and recorded dropout for tests of attention."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_posattn.attention import cpu

# Rows: no padding, right, left, and nothing but padding.
PADDING = torch.tensor(
    [
        [False, False, False, False, False],
        [False, False, False, True, True],
        [True, False, False, False, False],
        [True, True, True, True, True],
    ]
)


def gradients(output, inputs, seed=7):
    """Return the gradients of a fixed random combination of ``output`` in the ``inputs``."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(output.shape, generator=generator, dtype=torch.float64)
    combined = (output * direction.to(output)).sum()
    return torch.autograd.grad(combined, inputs, retain_graph=True, materialize_grads=True)


def assert_same_with_gradients(output, expected, tensors, exact=None, **tolerances):
    """Compare gradients, too; ``exact`` are the expected output's tensors if not the same."""
    exact = tensors if exact is None else exact
    results = (output, *gradients(output, tensors)), (expected, *gradients(expected, exact))
    torch.testing.assert_close(*results, check_dtype=exact is tensors, **tolerances)


def assert_same_model(output, expected, parameters, **tolerances):
    """Compare outputs and the gradients of named parameters."""
    torch.testing.assert_close(output, expected, **tolerances)
    both = (gradients(result, [*parameters.values()]) for result in (output, expected))
    for name, ours, theirs in zip(parameters, *both, strict=True):
        torch.testing.assert_close(ours, theirs, **tolerances, msg=lambda m, n=name: f"{n}: {m}")


def assert_rounded(output, expected, tensors, exact, roundings):
    """Compare with float64; allow so many roundings of the largest number of each tensor."""
    results = (output, *gradients(output, tensors)), (expected, *gradients(expected, exact))
    for ours, theirs in zip(*results, strict=True):
        tolerance = roundings * torch.finfo(output.dtype).eps * (1 + theirs.abs().max().item())
        torch.testing.assert_close(ours.double().to(theirs), theirs, rtol=0, atol=tolerance)


def leaves(*shapes, dtype=torch.float64, seed=0):
    """Return random tensors that require gradients; the same numbers in every precision."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [tensor.to(dtype).requires_grad_() for tensor in drawn]


def shaken(module, scale=0.3):
    """Return a module in float64, with noise on its parameters, since some start at 0 or 1."""
    parameters = list(module.double().parameters())
    noises = leaves(*(parameter.shape for parameter in parameters), seed=3)
    for parameter, noise in zip(parameters, noises, strict=True):
        parameter.data += scale * noise.data
    return module


class Draws:
    """Replacement of PyTorch's dropout that records its draws.

    Attributes:
        taken: for each draw the probability of dropping and the factors, float64: zero or the
            inverse of the probability of keeping.
    """

    def __init__(self, monkeypatch, seed=0):
        self.taken = []
        self._generator = torch.Generator().manual_seed(seed)
        monkeypatch.setattr(torch.nn.functional, "dropout", self._drop)
        monkeypatch.setattr(cpu, "draw_mask", self._draw)

    def _drop(self, x, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return x
        self._draw(x, p)
        return x * self.taken[-1][1].to(x)

    def _draw(self, x, p):
        kept = torch.rand(x.shape, generator=self._generator, dtype=torch.float64) >= p
        self.taken.append((p, kept.double() / (1 - p)))
        return kept

    def stacked(self, shapes):
        """Return the draws in these shapes; those of one head after another as ``[B, H, T, C]``."""
        draws, result = iter(self.taken), []
        for shape in shapes:
            p, factors = next(draws)
            if len(shape) == factors.dim() + 1:
                others = [next(draws)[1] for _ in range(shape[1] - 1)]
                factors = torch.stack([factors, *others], dim=1)
            result.append((p, factors))
        assert not [*draws]
        return result

    def named(self, p, **shapes):
        """Return the factors by name; assert their number, shapes and probability."""
        draws = self.stacked(shapes.values())
        result = [(drawn, tuple(factors.shape)) for drawn, factors in draws]
        assert result == [(p, shape) for shape in shapes.values()]
        return dict(zip(shapes, (factors for _, factors in draws), strict=True))


def saved_for_backward(attend):
    """Return the tensors that autograd saves in a call, one for each storage."""
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = attend()  # keeps the saved tensors alive
    assert output.requires_grad
    return list(kept.values())


class LargestTensor(TorchDispatchMode):
    """Recorder of the elements of the largest tensor that any operation returned."""

    elements = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        output = function(*arguments, **(keywords or {}))
        for tensor in output if isinstance(output, (list, tuple)) else [output]:
            if torch.is_tensor(tensor):
                self.elements = max(self.elements, tensor.numel())
        return output
