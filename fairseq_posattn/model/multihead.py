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
from fairseq_posattn.attention.cpu import Linear, drop
from fairseq_posattn.attention.encoded import EncodedKeys, store_encoded
from fairseq_posattn.attention.fused import Masks
from fairseq_posattn.model.feed_forward import Dropout

# Cache of incremental decoding, by (module, name).
IncrementalState = dict[Any, Any]
Moves = tuple[Tensor, Tensor] | None


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


@dataclass(frozen=True)
class ConcatenatedHeads:
    """Activation (None: the identity), then dropout of the concatenated heads."""

    activation: Callable[[Tensor], Tensor] | None = None
    dropout: float = 0.0


PLAIN = ConcatenatedHeads()


class OutputLinear(Linear):
    """Output projection ``[T, B, C]`` of the concatenated heads, after activation and dropout."""

    def __init__(self, embed_dim: int, heads: ConcatenatedHeads):
        super().__init__(embed_dim, embed_dim)
        self.activation = heads.activation
        self.dropout = Dropout(heads.dropout, type(self).__name__)

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


class RowMoves:
    """Cached positions of a batch that an order of its hypotheses changes, for all layers.

    Most hypotheses of a beam search share their first positions, so few rows have to be copied.
    """

    def __init__(self) -> None:
        self.orders = 0
        self.written: Tensor | None = None  # [T, B], the row in which each was written

    def find(self, orders: int, new_order: Tensor, length: int, rows: int) -> Moves:
        """Return the changed places of ``[T*B]`` and those to copy; None for all.

        The calling layer has followed so many ``orders``. ``length`` and ``rows`` are T and B.
        """
        if orders == self.orders:
            self.orders += 1
            known = new_order.new_empty(0, rows) if self.written is None else self.written
            newest = torch.arange(rows, device=new_order.device)
            before = torch.cat([known, newest.expand(length - len(known), rows)])
            self.written = before[:, new_order]
            self.moves: Moves = None
            # On a GPU the number of changes would need a device sync.
            if len(new_order) == rows and new_order.device.type == "cpu":
                changed = (before != self.written).flatten().nonzero().squeeze(1)
                places = changed % rows
                self.moves = changed, changed - places + new_order[places]
        return self.moves


@dataclass
class EncodedCache:
    """Keys and values of encoded sentences, each for so many hypotheses."""

    keys: EncodedKeys
    hypotheses: int

    def reorder(self, new_order: Tensor) -> None:
        """Select and order the sentences; a sentence's hypotheses stay consecutive."""
        sentences = select_sentences(new_order, self.hypotheses)
        if not is_identity_order(sentences, self.keys.value.size(0)):
            self.keys = self.keys.select(sentences)


class PositionCache:
    """Keys, values and padding of all positions so far, ``[T, B, ...]``, for incremental decoding.

    A beam search reorders its hypotheses at each step. The rows that change are copied in place;
    the caches of all layers share ``moves``.
    """

    fewest_free = 32  # positions; a longer buffer doubles

    def __init__(self, moves: RowMoves):
        self.moves = moves
        self.orders = moves.orders
        self.tensors: dict[str, Tensor] = {}
        self.buffers: dict[str, Tensor] = {}

    def __len__(self) -> int:
        return self.tensors["key"].size(0) if self.tensors else 0

    def reorder(self, new_order: Tensor) -> None:
        """Select and order the rows."""
        length, rows = self.tensors["key"].shape[:2]
        moves = self.moves.find(self.orders, new_order, length, rows)
        self.orders += 1
        for name, tensor in self.tensors.items():
            if tensor.requires_grad:
                self.tensors[name] = tensor.index_select(1, new_order)
            elif moves is None:
                past = self._allocate(name, tensor, length, len(new_order))[:length]
                self.tensors[name] = torch.index_select(tensor, 1, new_order, out=past)
            elif moves[0].numel():
                flat = tensor.flatten(0, 1)
                flat.index_copy_(0, moves[0], flat.index_select(0, moves[1]))

    def append(self, newest: dict[str, Tensor]) -> dict[str, Tensor]:
        """Append positions ``[T, B, ...]``; return all so far."""
        if "padding" in {**self.tensors, **newest}:
            newest = {"padding": _no_padding(newest["key"]), **newest}
            if self.tensors:
                self.tensors.setdefault("padding", _no_padding(self.tensors["key"]))
        self.tensors = {name: self._append(name, newest[name]) for name in newest}
        return self.tensors

    def _append(self, name: str, newest: Tensor) -> Tensor:
        past = self.tensors[name] if self.tensors else newest[:0]
        if past.requires_grad or newest.requires_grad:
            return torch.cat([past, newest])
        start = past.size(0)
        end = start + newest.size(0)
        buffer = self.buffers.get(name)
        if buffer is None or buffer.size(0) < end:
            buffer = self._allocate(name, newest, end, newest.size(1))
            buffer[:start] = past
        buffer[start:end] = newest
        return buffer[:end]

    def _allocate(self, name: str, like: Tensor, length: int, rows: int) -> Tensor:
        shape = (length + max(self.fewest_free, length), rows, *like.shape[2:])
        self.buffers[name] = like.new_empty(shape)
        return self.buffers[name]


def reorder_caches(incremental_state: IncrementalState, new_order: Tensor) -> None:
    """Select and order the hypotheses of a beam search in the caches of all layers."""
    for cache in incremental_state.values():
        if isinstance(cache, (EncodedCache, PositionCache)):
            cache.reorder(new_order)


def _no_padding(key: Tensor) -> Tensor:
    return torch.zeros(key.shape[:2], dtype=torch.bool, device=key.device)


class MultiheadAttention(nn.Module):
    """Multi-head attention by one mechanism, with H heads that divide C = ``embed_dim`` features.

    ``projections`` are the linear layers of queries, keys and values, by attribute.
    ``forward`` maps the queries' input ``[T, B, C]`` to the output ``[T, B, C]`` and the weights
    ``[B, H, T, Tk]``, or None unless ``need_weights``. Padding masks are bool, batch first, True
    where padded. ``incremental_state`` is the cache of incremental decoding. With
    ``masks`` the output lacks ``output_bias``, which the residual sum's kernel adds.
    """

    def __init__(self, embed_dim, num_heads, mechanism, heads, **projections: PackedLinear):
        super().__init__()
        check_heads(embed_dim, num_heads)
        self.num_heads = num_heads
        for name, projection in projections.items():
            self.add_module(name, projection)
        self.mechanism = mechanism
        self.out_proj = OutputLinear(embed_dim, heads)

    def attend(self, x, query, key, value, key_padding_mask, need_weights, **options):
        """Return the context ``[B, H, Tq, D]`` and the weights ``[B, H, Tq, Tk]`` or None."""
        options |= {"key_padding_mask": key_padding_mask, "need_weights": need_weights}
        attended = self.mechanism(x.transpose(0, 1), query, key, value, **options)
        return attended if need_weights else (attended, None)

    @property
    def output_bias(self) -> Tensor:
        """The bias that the output of kernels lacks."""
        return self.out_proj.bias


class MultiheadSelfAttention(MultiheadAttention):
    """Multi-head self attention."""

    def __init__(
        self, embed_dim: int, num_heads: int, mechanism: Mechanism, heads: ConcatenatedHeads = PLAIN
    ):
        qkv_proj = PackedLinear(embed_dim, embed_dim, parts=3 if mechanism.projects_key else 2)
        super().__init__(embed_dim, num_heads, mechanism, heads, qkv_proj=qkv_proj)
        self.projects_key = mechanism.projects_key

    def forward(
        self,
        x: Tensor,
        key_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = False,
        masks: Masks | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend from each position of ``x`` to ``x`` and the cached positions before it.

        With ``incremental_state``, ``x`` and its padding mask are those of the newest positions.
        """
        parts = self.qkv_proj.split(x)
        query, key, value = parts if self.projects_key else (parts[0], x, parts[1])
        options = {}
        if incremental_state is not None:
            newest = {"key": key, "value": value}
            if (self, "attention") not in incremental_state:
                moves = incremental_state.setdefault("moves", RowMoves())
                incremental_state[self, "attention"] = PositionCache(moves)
            cache = incremental_state[self, "attention"]
            if self.mechanism.encodes_keys:
                inputs = x.transpose(0, 1), split_heads(key, self.num_heads), len(cache)
                encoded = self.mechanism.encode_keys(*inputs)
                newest |= {name: one.movedim(2, 0) for name, one in encoded.items()}
            if key_padding_mask is not None:
                newest["padding"] = key_padding_mask.t()
            tensors = dict(cache.append(newest))
            key, value, padding = (tensors.pop(n, None) for n in ("key", "value", "padding"))
            key_padding_mask = None if padding is None else padding.t()
            if self.mechanism.encodes_keys:
                options["encoded"] = {name: one.movedim(0, 2) for name, one in tensors.items()}
        vectors = (split_heads(part, self.num_heads) for part in (query, key, value))
        context, weights = self.attend(x, *vectors, key_padding_mask, need_weights, **options)
        return self.out_proj(merge_heads(context), with_bias=masks is None), weights


class MultiheadCrossAttention(MultiheadAttention):
    """Attention from a decoder to the encoder's output, which has ``encoder_dim`` features."""

    def __init__(
        self,
        embed_dim: int,
        encoder_dim: int,
        num_heads: int,
        mechanism: Mechanism,
        heads: ConcatenatedHeads = PLAIN,
    ):
        projections = {
            "query_proj": PackedLinear(embed_dim, embed_dim, parts=1),
            "kv_proj": PackedLinear(encoder_dim, embed_dim, parts=2),
        }
        super().__init__(embed_dim, num_heads, mechanism, heads, **projections)

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        need_weights: bool = False,
        masks: Masks | None = None,
    ) -> tuple[Tensor, Tensor | None]:
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
                incremental_state[self, "attention"] = EncodedCache(keys, hypotheses)
            stored = incremental_state[self, "attention"].keys
        if stored is not None and stored.is_plain:
            attended = stored.attend(query, need_weights)
            context, weights = attended if need_weights else (attended, None)
        else:
            vectors = self._project(encoder_out) if stored is None else stored.vectors
            context, weights = self.attend(x, query, *vectors, encoder_padding_mask, need_weights)
        context = context.view(batch, self.num_heads, hypotheses, length, -1)
        context = context.permute(3, 0, 2, 1, 4).reshape(length, x.size(1), -1)  # [T, B*N, C]
        output = self.out_proj(context, with_bias=masks is None)
        if weights is not None:  # [B, H, N*T, S]
            weights = weights.unflatten(2, (hypotheses, length)).transpose(1, 2).flatten(0, 1)
        return output, weights

    def _project(self, encoder_out: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values, ``[B, H, S, D]``."""
        key, value = self.kv_proj.split(encoder_out)
        return split_heads(key, self.num_heads), split_heads(value, self.num_heads)

    def _store(self, query, key, value, padding) -> EncodedKeys:
        by_cpu = query.device.type == "cpu" and not self.training
        is_plain = by_cpu and self.mechanism.impl in ("auto", "reference")
        if is_plain and not (padding is not None and padding.all(1).any()):
            return store_encoded(query, key, value, padding)
        return EncodedKeys(key.transpose(2, 3).contiguous(), value.contiguous(), is_plain=False)
