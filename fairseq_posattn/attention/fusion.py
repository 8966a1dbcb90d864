"""Fusions of MPSAN's mask units: tokens-position-weight, fusion gates and the sum."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.cpu import drop, linear
from fairseq_posattn.attention.disan import FusionGate, glorot_linear


def position_fusion(contexts: Tensor, tokens: Tensor, logits: Tensor) -> Tensor:
    """Return the sum of contexts and tokens weighted per feature by a softmax (eq. 15, 16).

    Args:
        contexts: ``[B, K, T, C]``, one for each mask unit.
        tokens: ``[B, T, C]``.
        logits: ``[B, K+1, T, C]``, ``W_P w + b_P``; the last group is the tokens'.

    Returns:
        ``[B, T, C]``.
    """
    return _fuse(contexts, tokens, logits[:, :-1] - logits[:, -1:])


def _fuse(contexts: Tensor, tokens: Tensor, relative: Tensor) -> Tensor:
    """Fuse by the logits ``[B, K, T, C]`` of the contexts minus those of the tokens."""
    # torch has no types for apply
    fused: Tensor = _Fused.apply(contexts, tokens, relative)  # type: ignore[no-untyped-call]
    return fused


class _Fused(torch.autograd.Function):
    """Fusion one group at a time: it copies no group and saves only their exponentials."""

    @staticmethod
    def forward(ctx: Any, contexts: Tensor, tokens: Tensor, relative: Tensor) -> Tensor:
        wide = torch.promote_types(relative.dtype, torch.float32)
        greatest = relative.amax(1).clamp_(min=0).to(wide)  # [B, T, C]
        token_weight = greatest.neg().exp_()  # the tokens' logit is 0
        fused, total = token_weight * tokens, token_weight.clone()
        exponentials = []
        for logits, context in zip(relative.unbind(1), contexts.unbind(1), strict=True):
            exponential = (logits - greatest).exp_()
            fused += exponential * context
            total += exponential
            exponentials.append(exponential)
        fused /= total
        ctx.save_for_backward(contexts, token_weight, total, fused, *exponentials)
        return fused.to(torch.promote_types(contexts.dtype, tokens.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        contexts, token_weight, total, fused, *exponentials = ctx.saved_tensors
        gradient = gradient / total
        d_contexts = torch.empty_like(contexts, dtype=total.dtype)
        # Memory layout of the logits: rows of the linear layer's output.
        batch, units, length, dim = contexts.shape
        d_logits = gradient.new_empty(batch, length, units, dim).transpose(1, 2)
        for unit, d_context in enumerate(d_contexts.unbind(1)):
            torch.mul(exponentials[unit], gradient, out=d_context)
            torch.mul(contexts[:, unit] - fused, d_context, out=d_logits[:, unit])
        return d_contexts, token_weight * gradient, d_logits


class PositionFusion(nn.Module):
    """MPSAN's tokens-position-weight, TPW: see :func:`position_fusion`.

    Args:
        embed_dim: C.
        units: K.
        map_dropout: probability of dropping a feature before W_P.

    Attributes:
        output_dim: C.
    """

    def __init__(self, embed_dim: int, units: int, map_dropout: float = 0.0):
        super().__init__()
        self.groups = units + 1
        self.map_dropout = map_dropout
        self.map = glorot_linear(embed_dim, self.groups * embed_dim)  # W_P, b_P
        self.output_dim = embed_dim

    def forward(self, contexts: Tensor, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Fuse ``[B, K, T, C]`` and ``[B, T, C]`` into ``[B, T, C]``; ``hidden`` is unused."""
        seen = drop(tokens, self.map_dropout, self.training)
        # A softmax depends on differences alone: K groups of logits instead of K + 1.
        weight, bias = (self._relative(parameter) for parameter in (self.map.weight, self.map.bias))
        relative = linear(seen, weight, bias).unflatten(-1, (self.groups - 1, -1))  # [B, T, K, C]
        return _fuse(contexts, tokens, relative.transpose(1, 2))

    def _relative(self, parameter: Tensor) -> Tensor:
        """Return the units' part of a parameter minus the tokens' part."""
        groups = parameter.unflatten(0, (self.groups, -1))
        relative: Tensor = groups[:-1] - groups[-1:]
        return relative.flatten(0, 1)


class GateFusion(nn.Module):
    """Table 3's FG: DiSAN's fusion gate in every unit, with concatenated outputs.

    Args:
        embed_dim: C.
        units: K.
        map_dropout: probability of dropping a feature before a gate.

    Attributes:
        output_dim: K C.
    """

    def __init__(self, embed_dim: int, units: int, map_dropout: float = 0.0):
        super().__init__()
        self.gates = nn.ModuleList(FusionGate(embed_dim, map_dropout) for _ in range(units))
        self.output_dim = units * embed_dim

    def forward(self, contexts: Tensor, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Fuse two ``[B, K, T, C]`` into ``[B, T, K C]``; ``tokens`` is unused."""
        units = zip(self.gates, hidden.unbind(1), contexts.unbind(1), strict=True)
        return torch.cat([gate(h, s) for gate, h, s in units], dim=-1)


class SumFusion(nn.Module):
    """No fusion layer (Table 5): the sum of the units; the paper does not specify it.

    Args:
        embed_dim: C.
        units: K.
        map_dropout: unused, there is no linear layer.

    Attributes:
        output_dim: C.
    """

    def __init__(self, embed_dim: int, units: int, map_dropout: float = 0.0):
        super().__init__()
        self.output_dim = embed_dim

    def forward(self, contexts: Tensor, hidden: Tensor, tokens: Tensor) -> Tensor:
        """Sum ``[B, K, T, C]`` into ``[B, T, C]``."""
        return contexts.sum(1)


FUSIONS = {"position": PositionFusion, "gate": GateFusion, "sum": SumFusion}
