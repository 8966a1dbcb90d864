"""Attention from the equations, one position at a time, in float64, for the code to equal."""

import math

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_posattn.attention import headwise
from fairseq_posattn.attention.cpu import dropout

# Rows: no padding, right, left, and nothing but padding.
PADDING = torch.tensor(
    [
        [False, False, False, False, False],
        [False, False, False, True, True],
        [True, False, False, False, False],
        [True, True, True, True, True],
    ]
)


def attention_by_position(query, key, value, log_factor):
    """Softmax attention in explicit loops.

    ``log_factor(b, h, i, j)`` is what is added to the scaled dot product of query i and key j: a
    scalar tensor or number, or None where the key is blocked. ``i`` and ``j`` index the tensors.
    """
    batch, heads, queries, features = query.shape
    rows = []
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                seen = []
                for j in range(key.size(2)):
                    factor = log_factor(b, h, i, j)
                    if factor is not None:
                        dot = sum(query[b, h, i, d] * key[b, h, j, d] for d in range(features))
                        seen.append((j, dot / math.sqrt(features) + factor))
                if not seen:
                    rows.append(torch.zeros_like(value[b, h, 0]))
                    continue
                exponentials = [(j, torch.exp(score)) for j, score in seen]
                total = sum(e for _, e in exponentials)
                rows.append(sum(e / total * value[b, h, j] for j, e in exponentials))
    return torch.stack(rows).view(batch, heads, queries, value.size(-1))


def gradients(output, inputs, seed=7):
    """The gradients of a fixed random combination of ``output`` with respect to ``inputs``."""
    generator = torch.Generator().manual_seed(seed)
    direction = torch.randn(output.shape, generator=generator, dtype=torch.float64)
    return torch.autograd.grad((output * direction.to(output)).sum(), inputs, retain_graph=True)


def assert_same_with_gradients(output, expected, tensors):
    torch.testing.assert_close(output, expected)
    for ours, theirs in zip(gradients(output, tensors), gradients(expected, tensors), strict=True):
        torch.testing.assert_close(ours, theirs)


def leaves(*shapes, dtype=torch.float64, seed=0, scale=1.0):
    """Random tensors that require gradients; the same numbers in every precision."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (torch.randn(shape, generator=generator, dtype=torch.float64) * scale)
        .to(dtype)
        .requires_grad_()
        for shape in shapes
    ]


class Draws:
    """Stands in for PyTorch's dropout, and keeps what was drawn for a second reckoning.

    Attributes:
        taken: of each draw in order the probability of dropping, and the factors, float64: zero or
            the inverse of the probability of keeping, in the shape of what they multiplied.
    """

    def __init__(self, monkeypatch, seed=0):
        self.taken = []
        self._generator = torch.Generator().manual_seed(seed)
        monkeypatch.setattr(torch.nn.functional, "dropout", self._drop)
        for module in (dropout, headwise):
            monkeypatch.setattr(module, "draw_mask", self._draw)

    def _drop(self, x, p=0.5, training=True, inplace=False):
        if not training or p == 0:
            return x
        self._draw(x, p)
        return x * self.taken[-1][1].to(x)

    def _draw(self, x, p):
        kept = torch.rand(x.shape, generator=self._generator, dtype=torch.float64) >= p
        self.taken.append((p, kept.double() / (1 - p)))
        return kept

    def named(self, p, **shapes):
        """The factors, which must be so many, of these shapes, all drawn with probability ``p``."""
        found = [(drawn, tuple(factors.shape)) for drawn, factors in self.taken]
        assert found == [(p, shape) for shape in shapes.values()]
        return dict(zip(shapes, (factors for _, factors in self.taken), strict=True))


def saved_for_backward(attend):
    """What autograd keeps of what is done, a tensor of each storage."""
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = attend()  # which holds what is kept until all is counted
    assert output.requires_grad
    return list(kept.values())


class LargestTensor(TorchDispatchMode):
    """Remembers how many elements the largest tensor had that any operation returned."""

    elements = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        output = function(*arguments, **(keywords or {}))
        for tensor in output if isinstance(output, (list, tuple)) else [output]:
            if torch.is_tensor(tensor):
                self.elements = max(self.elements, tensor.numel())
        return output
