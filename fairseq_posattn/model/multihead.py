"""Multi-head attention around any mechanism: projections, heads, and the cache of past keys.

Inputs and outputs are ``[T, B, C]``. Weights are initialized as in fairseq's multi-head attention.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fairseq_posattn.attention import Mechanism
from fairseq_posattn.attention.cpu.linear import Linear
from fairseq_posattn.model.feed_forward import Dropout

# Cache of incremental decoding, by (module, name).
IncrementalState = dict[Any, Any]


class PackedLinear(Linear):
    """Several projections of one input as one matmul.

    Args:
        input_dim: features of the input.
        output_dim: features of each projection.
        parts: number of projections.
        bias: whether the projections have a bias.
    """

    def __init__(self, input_dim: int, output_dim: int, parts: int, bias: bool = True):
        self.parts = parts
        super().__init__(input_dim, parts * output_dim, bias)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        for weight in self.weight.chunk(self.parts):
            nn.init.xavier_uniform_(weight, gain=1 / math.sqrt(2))

    def split(self, x: Tensor) -> tuple[Tensor, ...]:
        """Return the projections as separate tensors."""
        packed: Tensor = self(x)
        return packed.chunk(self.parts, dim=-1)


@dataclass(frozen=True)
class ConcatenatedHeads:
    """Activation and dropout of the concatenated heads, before their output projection.

    Attributes:
        activation: None for the identity.
        dropout: probability of zeroing a feature after the activation.
    """

    activation: Callable[[Tensor], Tensor] | None = None
    dropout: float = 0.0


class OutputLinear(Linear):
    """Output projection of the concatenated heads, after their activation and dropout."""

    def __init__(self, embed_dim: int, heads: ConcatenatedHeads):
        super().__init__(embed_dim, embed_dim)
        self.activation = heads.activation
        self.dropout = Dropout(heads.dropout, type(self).__name__)

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, heads: Tensor) -> Tensor:
        """Map ``[T, B, C]`` to ``[T, B, C]``."""
        activated = heads if self.activation is None else self.activation(heads)
        return super().forward(self.dropout(activated))


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Return ``[T, B, C]`` as ``[B, H, T, D]``, a view."""
    heads: Tensor = x.unflatten(-1, (num_heads, -1))
    return heads.permute(1, 2, 0, 3)


def merge_heads(x: Tensor) -> Tensor:
    """Concatenate the heads ``[B, H, T, D]`` to ``[T, B, C]``."""
    return x.permute(2, 0, 1, 3).flatten(2)


def check_heads(embed_dim: int, num_heads: int) -> None:
    """Raise ValueError if H does not divide C."""
    if embed_dim % num_heads:
        raise ValueError(f"{embed_dim} features cannot be divided among {num_heads} heads")


def select_sentences(new_order: Tensor, hypotheses: int) -> Tensor:
    """Return the sentences kept; each sentence has ``hypotheses`` consecutive rows."""
    return new_order if hypotheses == 1 else new_order[::hypotheses] // hypotheses


def is_identity_order(new_order: Tensor, count: int) -> bool:
    """Return whether the order is the identity. Always False on a GPU, to avoid a device sync."""
    if new_order.device.type != "cpu":
        return False
    return torch.equal(new_order, torch.arange(count))


class CachedAttention(nn.Module):
    """Base of self and cross attention: a cache of tensors for incremental decoding."""

    def cached(self, incremental_state: IncrementalState | None) -> dict[str, Tensor] | None:
        return None if incremental_state is None else incremental_state.get((self, "attention"))

    def cache(self, incremental_state: IncrementalState | None, tensors: dict[str, Tensor]) -> None:
        if incremental_state is not None:
            incremental_state[self, "attention"] = tensors


class MultiheadSelfAttention(CachedAttention):
    """Multi-head self attention by one mechanism.

    Args:
        embed_dim: C.
        num_heads: H.
        mechanism: attention within the heads.
        heads: activation and dropout of the concatenated heads.

    Raises:
        ValueError: H does not divide C.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mechanism: Mechanism,
        heads: ConcatenatedHeads = ConcatenatedHeads(),  # noqa: B008, it is frozen
    ):
        super().__init__()
        check_heads(embed_dim, num_heads)
        self.num_heads = num_heads
        self.projects_key = mechanism.projects_key
        self.qkv_proj = PackedLinear(embed_dim, embed_dim, parts=3 if self.projects_key else 2)
        self.mechanism = mechanism
        self.out_proj = OutputLinear(embed_dim, heads)

    def forward(
        self,
        x: Tensor,
        key_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from each position of ``x`` to ``x`` and the cached positions before it.

        Args:
            x: ``[T, B, C]``; with ``incremental_state`` only the newest positions.
            key_padding_mask: bool ``[B, T]`` of the same positions, True where padded.
            need_weights: also return the weights.

        Returns:
            ``[T, B, C]`` and the weights ``[B, H, T, Tk]`` or None.
        """
        parts = self.qkv_proj.split(x)
        query, key, value = parts if self.projects_key else (parts[0], x, parts[1])
        if incremental_state is not None:
            key, value, key_padding_mask = self._extend_cache(
                incremental_state, key, value, key_padding_mask
            )
        query, key, value = (split_heads(part, self.num_heads) for part in (query, key, value))
        attended = self.mechanism(
            x.transpose(0, 1),
            query,
            key,
            value,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
        )
        context, weights = attended if need_weights else (attended, None)
        return self.out_proj(merge_heads(context)), weights

    def _extend_cache(
        self,
        incremental_state: IncrementalState,
        key: Tensor,
        value: Tensor,
        padding: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return key and value ``[T, B, C]`` and padding ``[B, T]`` of all positions so far."""
        newest = {"key": key, "value": value}
        if padding is not None:
            newest["padding"] = padding.t()
        past = self.cached(incremental_state)
        if past is not None:
            order = past.get("order")
            if "padding" in {**past, **newest}:
                past = {"padding": _no_padding(past["key"]), **past}
                newest = {"padding": _no_padding(key), **newest}
            newest = {name: _append(past[name], order, newest[name]) for name in newest}
        self.cache(incremental_state, newest)
        padding = newest.get("padding")
        return newest["key"], newest["value"], None if padding is None else padding.t()

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> IncrementalState:
        """Store the order of a beam search's hypotheses.

        It is applied when the next position is appended, so that the cache is copied once.
        """
        past = self.cached(incremental_state)
        if past is not None:
            order = past["order"][new_order] if "order" in past else new_order
            self.cache(incremental_state, {**past, "order": order})
        return incremental_state


def _no_padding(key: Tensor) -> Tensor:
    return torch.zeros(key.shape[:2], dtype=torch.bool, device=key.device)


def _append(past: Tensor, order: Tensor | None, newest: Tensor) -> Tensor:
    """Append ``newest`` to the rows ``order`` of ``past`` ``[T, B, ...]``; None for all rows."""
    if order is None:
        return torch.cat([past, newest])
    if past.requires_grad:
        return torch.cat([past.index_select(1, order), newest])
    length = past.size(0)
    grown = past.new_empty(length + newest.size(0), *newest.shape[1:])
    torch.index_select(past, 1, order, out=grown[:length])
    grown[length:] = newest
    return grown


class MultiheadCrossAttention(CachedAttention):
    """Dot-product attention from a decoder to the encoder's output.

    Args:
        embed_dim: C of the decoder.
        encoder_dim: features of the encoder's output.
        num_heads: H.
        mechanism: attention within the heads, not causal.
        heads: activation and dropout of the concatenated heads.

    Raises:
        ValueError: H does not divide C.
    """

    def __init__(
        self,
        embed_dim: int,
        encoder_dim: int,
        num_heads: int,
        mechanism: Mechanism,
        heads: ConcatenatedHeads = ConcatenatedHeads(),  # noqa: B008, it is frozen
    ):
        super().__init__()
        check_heads(embed_dim, num_heads)
        self.num_heads = num_heads
        self.query_proj = PackedLinear(embed_dim, embed_dim, parts=1)
        self.kv_proj = PackedLinear(encoder_dim, embed_dim, parts=2)
        self.mechanism = mechanism
        self.out_proj = OutputLinear(embed_dim, heads)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from each position of ``x`` to the encoder's output.

        Args:
            x: ``[T, B*N, C]``: N consecutive hypotheses of each encoded sentence, 1 in training.
                They are queries of one attention, so that keys and values are read once.
            encoder_out: ``[S, B, encoder_dim]``, projected once per ``incremental_state``.
            encoder_padding_mask: bool ``[B, S]``, True where padded.
            need_weights: also return the weights.

        Returns:
            ``[T, B*N, C]`` and the weights ``[B*N, H, T, S]`` or None.
        """
        length, batch = x.size(0), encoder_out.size(1)
        hypotheses = x.size(1) // batch
        past = self.cached(incremental_state)
        if past is None:
            key, value = (
                split_heads(part, self.num_heads) for part in self.kv_proj.split(encoder_out)
            )
            if incremental_state is not None:  # copied once, not for the matmul of each step
                key, value = key.contiguous(), value.contiguous()
                incremental_state[self, "hypotheses"] = hypotheses
            self.cache(incremental_state, {"key": key, "value": value})
        else:
            key, value = past["key"], past["value"]
        hidden = x if hypotheses == 1 else gather_hypotheses(x, batch)  # [N*T, B, C]
        query = split_heads(self.query_proj(hidden), self.num_heads)
        attended = self.mechanism(
            hidden.transpose(0, 1),
            query,
            key,
            value,
            key_padding_mask=encoder_padding_mask,
            need_weights=need_weights,
        )
        context, weights = attended if need_weights else (attended, None)
        output = self.out_proj(merge_heads(context))
        if hypotheses > 1:
            output = spread_hypotheses(output, length)
            if weights is not None:  # [B, H, N*T, S]
                weights = weights.unflatten(2, (hypotheses, length)).transpose(1, 2).flatten(0, 1)
        return output, weights

    def reorder_incremental_state(
        self, incremental_state: IncrementalState, new_order: Tensor
    ) -> IncrementalState:
        """Reorder the cached sentences; a sentence's hypotheses stay consecutive."""
        tensors = self.cached(incremental_state)
        if tensors is not None:
            sentences = select_sentences(new_order, incremental_state[self, "hypotheses"])
            if not is_identity_order(sentences, tensors["key"].size(0)):
                tensors = {name: one.index_select(0, sentences) for name, one in tensors.items()}
                self.cache(incremental_state, tensors)
        return incremental_state


def gather_hypotheses(x: Tensor, batch: int) -> Tensor:
    """Concatenate each sentence's hypotheses: ``[T, B*N, C]`` to ``[N*T, B, C]``."""
    hypotheses: Tensor = x.unflatten(1, (batch, -1))
    return hypotheses.permute(2, 0, 1, 3).flatten(0, 1)


def spread_hypotheses(x: Tensor, length: int) -> Tensor:
    """Invert :func:`gather_hypotheses`: ``[N*T, B, C]`` to ``[T, B*N, C]``."""
    hypotheses: Tensor = x.unflatten(0, (-1, length))
    return hypotheses.permute(1, 2, 0, 3).flatten(1, 2)
