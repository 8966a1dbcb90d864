"""MPSAN: additive self attention under several positional masks at once, and their fusion.

Dai et al., 2020, "Multiple Positional Self-Attention Network for Text Classification", eq. 1 to 7,
15 and 16. A mask unit is an affine map of its own with ELU after it, and attention under its own
mask (:mod:`fairseq_posattn.attention.masks`, which also maps the paper's forward and backward); a
fusion makes one sequence of what the units found.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Options, context_of
from fairseq_posattn.attention.choices import check_choice
from fairseq_posattn.attention.disan import FusionGate, glorot_linear
from fairseq_posattn.attention.dropout import drop
from fairseq_posattn.attention.headwise import map_heads, map_to_heads
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.linear import Linear, linear
from fairseq_posattn.attention.masks import DistanceMask, MaskBank, masked_softmax_attention
from fairseq_posattn.attention.mechanism import AttentionFunction
from fairseq_posattn.attention.shapes import Shapes

# The four units of the published model.
MPSAN_MASKS = ("window:2", "window:3", "past+scaled_distance", "future+scaled_distance")


def additive_attention(
    key_score: Tensor,
    query_score: Tensor,
    value: Tensor,
    *,
    mask: Tensor | DistanceMask | None = None,
    constant: float = 5.0,
    **options: Unpack[Options],
) -> Attended:
    """Softmax over the keys of ``ELU((U h_i + V h_j + b) / c) + M_ij``, times values (eq. 6, 7).

    With heads, or units, all four tensors have them after the batch: ``[B, H, ...]``. The
    multi-dimensional score of Table 4 is this function with every feature a head: ``U h_i`` is
    ``[B, C, Tk]``, ``V h_j + b`` is ``[B, C, Tq]``, the values are ``[B, C, Tk, 1]``. It keeps C
    times as many numbers for its backward pass, B * C * Tq * Tk of them twice.

    Args:
        key_score: ``[B, Tk]``, ``U h_i``.
        query_score: ``[B, Tq]``, ``V h_j + b``.
        value: ``[B, Tk, C]``, ``h_i``.
        mask: float, broadcastable to ``[B, Tq, Tk]``: 0, -inf or a penalty. Or the functions of
            distance that masks are, K of them for the first dimension after the batch, which the
            kernels read faster.
        constant: c.
        options: see :class:`~fairseq_posattn.attention.call.Options`; ``impl`` is ``auto``,
            ``triton`` or ``reference``. Padding is ``[B, Tk]`` with heads too.

    Returns:
        context ``[B, Tq, C]``, or ``(context, weights [B, Tq, Tk])``. A query that may see no key
        has both zero.

    Raises:
        ValueError: as :class:`~fairseq_posattn.attention.implementations.Attention` when called.
    """
    return MPSAN(
        options,
        key_score=key_score,
        query_score=query_score,
        value=value,
        mask=mask,
        constant=constant,
    )


def _attend(
    call: Call,
    key_score: Tensor,
    query_score: Tensor,
    value: Tensor,
    mask: Tensor | DistanceMask | None,
    constant: float,
) -> Attended:
    if call.impl == "triton":
        from fairseq_posattn.attention.kernels.mpsan_triton import additive_attention

        return additive_attention(call, key_score, query_score, value, mask, constant)
    if isinstance(mask, DistanceMask):
        matrix = mask.matrix(value.dtype)  # [K, Tq, Tk]
        ones = [1] * (key_score.dim() - 3)
        mask = matrix.view(matrix.size(0), *ones, *matrix.shape[1:])
    key_score = (key_score / constant).unsqueeze(-2)  # [B, 1, Tk]
    query_score = (query_score / constant).unsqueeze(-1)  # [B, Tq, 1]
    return masked_softmax_attention(
        F.elu(key_score + query_score),  # [B, Tq, Tk]
        value,
        mask=mask,
        key_padding_mask=call.key_padding_mask,
        dropout_p=call.dropout_p,
        need_weights=call.need_weights,
    )


MPSAN = Attention(
    "additive attention",
    _attend,
    Shapes(
        key_score="B * Tk",
        query_score="B * Tq",
        value="B * Tk C",
        mask="~B * Tq Tk",
        key_padding_mask="B Tk",
    ),
    implementations=("triton", "reference"),
)


class PositionalSelfAttention(nn.Module):
    """K mask units over the same words, worked out together (eq. 1 and 7).

    Args:
        embed_dim: C, features of a word and, as in the paper, of a unit.
        masks: their names, see :func:`fairseq_posattn.attention.masks.mask_by_name`.
        multi_dimensional: whether a score is a vector, a number for each feature (Table 4's M-D).
        map_dropout: probability of dropping a feature before W_h, of each unit by itself, and
            before U and V, which see the same.
        activation: after W_h.
        impl: see :func:`additive_attention`.

    Raises:
        ValueError: a mask's name is unknown.
    """

    def __init__(
        self,
        embed_dim: int,
        masks: Sequence[str] = MPSAN_MASKS,
        multi_dimensional: bool = False,
        map_dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = F.elu,
        impl: str = "auto",
    ):
        super().__init__()
        self.attend = AttentionFunction(additive_attention)
        self.masks = MaskBank(masks)
        self.units = len(masks)
        self.scores = embed_dim if multi_dimensional else 1  # S, numbers in a score
        self.map_dropout = map_dropout
        self.activation = activation
        self.impl = impl
        self.hidden_map = Linear(embed_dim, self.units * embed_dim)  # W_h, b_h
        self.key_weight = nn.Parameter(torch.empty(self.units, self.scores, embed_dim))  # U
        self.query_weight = nn.Parameter(torch.empty(self.units, self.scores, embed_dim))  # V
        self.query_bias = nn.Parameter(torch.empty(self.units, self.scores))  # b
        # Vectors of scores have two biases for the one of eq. 6, which is their sum: with one, a
        # model of two such units has 1.08m parameters, where the paper counts 1.09m.
        key_bias = nn.Parameter(torch.empty(self.units, self.scores)) if multi_dimensional else None
        self.key_bias: nn.Parameter | None
        self.register_parameter("key_bias", key_bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        hidden_weights = self.hidden_map.weight.chunk(self.units)
        for weight in (*hidden_weights, *self.key_weight, *self.query_weight):
            nn.init.xavier_uniform_(weight)
        for bias in (self.hidden_map.bias, self.query_bias, self.key_bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(
        self, words: Tensor, key_padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Every unit's context of every word, and the features h that it was drawn from.

        Args:
            words: ``[B, T, C]``.
            key_padding_mask: bool ``[B, T]``, True where padded.

        Returns:
            contexts ``[B, K, T, C]`` and hidden ``[B, K, T, C]``.
        """
        length, dropping = words.size(1), (self.map_dropout, self.training)
        hidden = self.activation(map_to_heads(self.hidden_map, words, self.units, *dropping))
        score_weight = torch.cat([self.key_weight, self.query_weight], dim=1)  # [K, 2S, C]
        scores = map_heads(hidden, score_weight, None, *dropping)  # [B, K, T, 2S]
        key_score, query_score = scores.transpose(2, 3).chunk(2, dim=2)  # [B, K, S, T] each
        if self.key_bias is not None:
            key_score = key_score + self.key_bias[..., None]
        # Each of the S numbers of a score weighs C / S features: all of them, or one.
        value = hidden.unflatten(-1, (self.scores, -1)).transpose(2, 3)  # [B, K, S, T, C/S]
        attended = self.attend(
            key_score,
            query_score + self.query_bias[..., None],
            value,
            mask=self.masks.of_distance(length, length, device=words.device),
            key_padding_mask=key_padding_mask,
            training=self.training,
            impl=self.impl,
        )
        contexts = context_of(attended).transpose(2, 3).flatten(3)
        return contexts, hidden


def position_fusion(contexts: Tensor, words: Tensor, logits: Tensor) -> Tensor:
    """Sum contexts and words, weighted by a softmax over them for each feature (eq. 15, 16).

    Args:
        contexts: ``[B, K, T, C]``, one of each mask unit.
        words: ``[B, T, C]``.
        logits: ``[B, K+1, T, C]``, ``W_P w + b_P``; the last group is the words'.

    Returns:
        ``[B, T, C]``.
    """
    return _fuse(contexts, words, logits[:, :-1] - logits[:, -1:])


def _fuse(contexts: Tensor, words: Tensor, relative: Tensor) -> Tensor:
    """By the logits ``[B, K, T, C]`` of the contexts less those of the words: all that counts."""
    # torch has no types for apply
    fused: Tensor = _Fused.apply(contexts, words, relative)  # type: ignore[no-untyped-call]
    return fused


class _Fused(torch.autograd.Function):
    """One group after the other: none is copied, and of all only their exponentials are kept."""

    @staticmethod
    def forward(ctx: Any, contexts: Tensor, words: Tensor, relative: Tensor) -> Tensor:
        wide = torch.promote_types(relative.dtype, torch.float32)
        greatest = relative.amax(1).clamp_(min=0).to(wide)  # [B, T, C]
        of_words = greatest.neg().exp_()  # the exponential of its logit, which is 0
        fused, total = of_words * words, of_words.clone()
        exponentials = []
        for logits, context in zip(relative.unbind(1), contexts.unbind(1), strict=True):
            exponential = (logits - greatest).exp_()
            fused += exponential * context
            total += exponential
            exponentials.append(exponential)
        fused /= total
        ctx.save_for_backward(contexts, of_words, total, fused, *exponentials)
        return fused.to(torch.promote_types(contexts.dtype, words.dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, ...]:
        contexts, of_words, total, fused, *exponentials = ctx.saved_tensors
        gradient = gradient / total
        of_contexts = torch.empty_like(contexts, dtype=total.dtype)
        # In memory as the map gave the logits, whose gradients are of its rows.
        batch, units, length, dim = contexts.shape
        of_logits = gradient.new_empty(batch, length, units, dim).transpose(1, 2)
        for unit, of_context in enumerate(of_contexts.unbind(1)):
            torch.mul(exponentials[unit], gradient, out=of_context)
            torch.mul(contexts[:, unit] - fused, of_context, out=of_logits[:, unit])
        return of_contexts, of_words * gradient, of_logits


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

    def forward(self, contexts: Tensor, hidden: Tensor, words: Tensor) -> Tensor:
        """``[B, K, T, C]`` and ``[B, T, C]`` to ``[B, T, C]``; ``hidden`` is not looked at."""
        seen = drop(words, self.map_dropout, self.training)
        # A softmax depends on differences alone: a fifth less to multiply, where K is four.
        weight, bias = (self._relative(parameter) for parameter in (self.map.weight, self.map.bias))
        relative = linear(seen, weight, bias).unflatten(-1, (self.groups - 1, -1))  # [B, T, K, C]
        return _fuse(contexts, words, relative.transpose(1, 2))

    def _relative(self, parameter: Tensor) -> Tensor:
        """That of the units' logits less that of the words'."""
        groups = parameter.unflatten(0, (self.groups, -1))
        relative: Tensor = groups[:-1] - groups[-1:]
        return relative.flatten(0, 1)


class GateFusion(nn.Module):
    """Table 3's FG: DiSAN's fusion gate in every unit, their outputs side by side.

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

    def forward(self, contexts: Tensor, hidden: Tensor, words: Tensor) -> Tensor:
        """``[B, K, T, C]`` and ``[B, K, T, C]`` to ``[B, T, K C]``; ``words`` is not looked at."""
        units = zip(self.gates, hidden.unbind(1), contexts.unbind(1), strict=True)
        return torch.cat([gate(h, s) for gate, h, s in units], dim=-1)


class SumFusion(nn.Module):
    """No fusion layer (Table 5): the sum of the units, which is how the paper's silence is read.

    Args:
        embed_dim: C.
        units: K.
        map_dropout: of nothing, there is no map.

    Attributes:
        output_dim: C.
    """

    def __init__(self, embed_dim: int, units: int, map_dropout: float = 0.0):
        super().__init__()
        self.output_dim = embed_dim

    def forward(self, contexts: Tensor, hidden: Tensor, words: Tensor) -> Tensor:
        """``[B, K, T, C]`` to ``[B, T, C]``; ``hidden`` and ``words`` are not looked at."""
        return contexts.sum(1)


FUSIONS = {"position": PositionFusion, "gate": GateFusion, "sum": SumFusion}


class MultiplePositionalSelfAttention(nn.Module):
    """MPSAN before its pooling: mask units, dropout, fusion.

    Args:
        embed_dim: C.
        masks: a name for each unit, see :func:`fairseq_posattn.attention.masks.mask_by_name`.
        fusion: ``position``, ``gate`` or ``sum``.
        multi_dimensional, impl: see :class:`PositionalSelfAttention`.
        dropout: probability of dropping a feature of a unit's context before the fusion.
        map_dropout: before each affine map: those of :class:`PositionalSelfAttention` and of the
            fusion.
        activation: of a unit.

    Attributes:
        output_dim: C, or K C where the fusion is ``gate``.

    Raises:
        ValueError: a mask's or the fusion's name is unknown.
    """

    def __init__(
        self,
        embed_dim: int,
        masks: Sequence[str] = MPSAN_MASKS,
        fusion: str = "position",
        multi_dimensional: bool = False,
        dropout: float = 0.0,
        map_dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = F.elu,
        impl: str = "auto",
    ):
        super().__init__()
        check_choice("fusion", fusion, FUSIONS)
        self.attention = PositionalSelfAttention(
            embed_dim, masks, multi_dimensional, map_dropout, activation, impl
        )
        self.dropout = dropout
        self.fusion = FUSIONS[fusion](embed_dim, len(masks), map_dropout)
        self.output_dim = self.fusion.output_dim

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, C]`` to ``[B, T, output_dim]``; ``key_padding_mask`` bool ``[B, T]``."""
        contexts, hidden = self.attention(words, key_padding_mask)
        contexts = drop(contexts, self.dropout, self.training)
        fused: Tensor = self.fusion(contexts, hidden, words)
        return fused
