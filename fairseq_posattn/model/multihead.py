"""Multi-head attention around any mechanism: projections, heads, and their use of the caches.

Inputs and outputs are ``[T, B, C]``. Weights are initialized as in fairseq's multi-head attention.
"""

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from fairseq_posattn.attention import Mechanism
from fairseq_posattn.attention.cpu import Linear, drop
from fairseq_posattn.attention.encoded import EncodedKeys, store_encoded
from fairseq_posattn.attention.fused import DropoutStreams
from fairseq_posattn.model.caches import IncrementalState, PositionCache, RowMoves
from fairseq_posattn.model.feed_forward import Dropout

WithWeights = tuple[Tensor, Tensor | None]  # attention weights, None unless ``need_weights``


class PackedLinear(Linear):
    """Several projections of one input as one matmul, each to ``output_dim`` features."""

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


class OutputLinear(Linear):
    """Output projection ``[T, B, C]`` of the concatenated heads, after activation and dropout."""

    def __init__(
        self, dim: int, activation: Callable[[Tensor], Tensor] | None = None, dropout: float = 0.0
    ):
        super().__init__(dim, dim)
        self.activation = activation
        self.dropout = Dropout(dropout, type(self).__name__)

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, heads: Tensor, with_bias: bool = True) -> Tensor:
        activated = heads if self.activation is None else self.activation(heads)
        return super().forward(drop(activated, self.dropout.probability), with_bias)


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """Return ``[T, B, C]`` or ``[T, B, H, D]`` as ``[B, H, T, D]``, a view."""
    return x.view(*x.shape[:2], num_heads, -1).permute(1, 2, 0, 3)


def merge_heads(x: Tensor) -> Tensor:
    """Concatenate the heads ``[B, H, T, D]`` to ``[T, B, C]``."""
    return x.permute(2, 0, 1, 3).flatten(2)


class MultiheadAttention(nn.Module):
    """Multi-head attention by one mechanism, with H heads that divide C = ``embed_dim`` features.

    ``projections`` are the linear layers of queries, keys and values, by attribute; ``heads`` are
    options of :class:`OutputLinear`. ``attend`` of subclasses returns the concatenated heads
    ``[T, B, C]`` and the weights ``[B, H, T, Tk]``. Padding masks are bool, batch first, True where
    padded. ``incremental_state`` is the cache of incremental decoding.
    """

    attend: Callable[..., WithWeights]

    def __init__(
        self, dim: int, num_heads: int, mechanism: Mechanism, projections: Any, **heads: Any
    ):
        super().__init__()
        if dim % num_heads:
            raise ValueError(f"{dim} features cannot be divided among {num_heads} heads")
        self.num_heads = num_heads
        for name, projection in projections.items():
            self.add_module(name, projection)
        self.mechanism = mechanism
        self.out_proj = OutputLinear(dim, **heads)

    def forward(self, x: Tensor, *args: Any, **options: Any) -> WithWeights:
        """Map ``[T, B, C]`` to ``[T, B, C]``; arguments and weights are those of ``attend``."""
        heads, weights = self.attend(x, *args, **options)
        return self.out_proj(heads), weights

    def without_output_bias(
        self, streams: DropoutStreams, x: Tensor, *args: Any, **options: Any
    ) -> WithWeights:
        """Return :meth:`forward` without ``output_bias``, which the residual sum's kernel adds."""
        heads, weights = self.attend(x, *args, **options)
        return self.out_proj(heads, with_bias=False), weights

    @property
    def output_bias(self) -> Tensor:
        """The bias that :meth:`without_output_bias` lacks."""
        return self.out_proj.bias

    def run_mechanism(
        self, x: Tensor, *vectors: Tensor, need_weights: bool, **options: Any
    ) -> WithWeights:
        """Return the context ``[B, H, Tq, D]`` and the weights; ``vectors`` are Q, K and V."""
        attended = self.mechanism(x.transpose(0, 1), *vectors, need_weights=need_weights, **options)
        return attended if need_weights else (attended, None)


class MultiheadSelfAttention(MultiheadAttention):
    """Multi-head self attention."""

    qkv_proj: PackedLinear

    def __init__(self, dim: int, num_heads: int, mechanism: Mechanism, **heads: Any):
        qkv_proj = PackedLinear(dim, dim, parts=3 if mechanism.projects_key else 2)
        super().__init__(dim, num_heads, mechanism, {"qkv_proj": qkv_proj}, **heads)

    def attend(
        self,
        x: Tensor,
        key_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = False,
    ) -> WithWeights:
        """Attend from each position of ``x`` to ``x`` and the cached positions before it.

        With ``incremental_state``, ``x`` and its padding mask are those of the newest positions.
        """
        parts = self.qkv_proj.split(x)
        query, key, value = parts if len(parts) == 3 else (parts[0], x, parts[1])
        encoded = None
        if incremental_state is not None:
            newest = {"key": key, "value": value}
            if (self, "attention") not in incremental_state:
                moves = incremental_state.setdefault("moves", RowMoves())
                incremental_state[self, "attention"] = PositionCache(moves)
            cache = incremental_state[self, "attention"]
            if self.mechanism.encodes_keys:
                inputs = x.transpose(0, 1), split_heads(key, self.num_heads), len(cache)
                added = self.mechanism.encode_keys(*inputs)
                newest |= {name: tensor.movedim(2, 0) for name, tensor in added.items()}
            if key_padding_mask is not None:
                newest["padding"] = key_padding_mask.t()
            tensors = dict(cache.append(newest))
            key, value, padding = (tensors.pop(n, None) for n in ("key", "value", "padding"))
            key_padding_mask = None if padding is None else padding.t()
            if self.mechanism.encodes_keys:
                encoded = {name: tensor.movedim(0, 2) for name, tensor in tensors.items()}
        vectors = (split_heads(part, self.num_heads) for part in (query, key, value))
        options = {"key_padding_mask": key_padding_mask, "encoded": encoded}
        context, weights = self.run_mechanism(x, *vectors, need_weights=need_weights, **options)
        return merge_heads(context), weights


class MultiheadCrossAttention(MultiheadAttention):
    """Attention from a decoder to the encoder's output, which has ``encoder_dim`` features."""

    query_proj: PackedLinear
    kv_proj: PackedLinear

    def __init__(
        self, dim: int, encoder_dim: int, num_heads: int, mechanism: Mechanism, **heads: Any
    ):
        projections = {
            "query_proj": PackedLinear(dim, dim, parts=1),
            "kv_proj": PackedLinear(encoder_dim, dim, parts=2),
        }
        super().__init__(dim, num_heads, mechanism, projections, **heads)

    def attend(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = False,
    ) -> WithWeights:
        """Attend from each position of ``x`` to the encoder's output.

        Args:
            x: ``[T, B*N, C]``: N consecutive hypotheses of each encoded sentence, 1 in training.
                They are queries of one attention, so that keys and values are read once.
            encoder_out: ``[S, B, encoder_dim]``, projected once per ``incremental_state``.
            encoder_padding_mask: ``[B, S]``.
        """
        length, batch = x.size(0), encoder_out.size(1)
        hypotheses = x.size(1) // batch
        query = self.query_proj(x).view(length, batch, hypotheses, self.num_heads, -1)
        query = query.permute(1, 3, 2, 0, 4).flatten(2, 3)  # [B, H, N*T, D]
        stored = None
        if incremental_state is not None:
            if (self, "attention") not in incremental_state:  # copied once, not at each step
                keys = self._store(query, *self._project(encoder_out), encoder_padding_mask)
                keys.hypotheses = hypotheses
                incremental_state[self, "attention"] = keys
            stored = incremental_state[self, "attention"]
        if stored is not None and stored.is_plain:
            attended = stored.attend(query, need_weights)
            context, weights = attended if need_weights else (attended, None)
        else:
            vectors = self._project(encoder_out) if stored is None else stored.vectors
            context, weights = self.run_mechanism(
                x, query, *vectors, key_padding_mask=encoder_padding_mask, need_weights=need_weights
            )
        context = context.view(batch, self.num_heads, hypotheses, length, -1)
        context = context.permute(3, 0, 2, 1, 4).reshape(length, x.size(1), -1)  # [T, B*N, C]
        if weights is not None:  # [B, H, N*T, S]
            weights = weights.unflatten(2, (hypotheses, length)).transpose(1, 2).flatten(0, 1)
        return context, weights

    def _project(self, encoder_out: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, ``[B, H, S, D]``."""
        key, value = self.kv_proj.split(encoder_out)
        return split_heads(key, self.num_heads), split_heads(value, self.num_heads)

    def _store(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None
    ) -> EncodedKeys:
        by_cpu = query.device.type == "cpu" and not self.mechanism.drops
        is_plain = by_cpu and self.mechanism.impl in ("auto", "reference")
        if is_plain and not (padding is not None and padding.all(1).any()):
            return store_encoded(query, key, value, padding)
        return EncodedKeys(key.transpose(2, 3).contiguous(), value.contiguous(), is_plain=False)
