"""Caches of incremental decoding, and their order in a beam search."""

from typing import Any

import torch
from torch import Tensor

from fairseq_posattn.attention.encoded import EncodedKeys

# Cache by (module, name).
IncrementalState = dict[Any, Any]
Moves = tuple[Tensor, Tensor] | None


def count_repeats(new_order: Tensor, sentences: int) -> int:
    """Return how often ``new_order`` repeats each of 0, 1, ...; 1 for any other order."""
    repeats, rest = divmod(new_order.numel(), sentences)
    if rest or repeats < 2:
        return 1
    regular = torch.arange(sentences, device=new_order.device).repeat_interleave(repeats)
    return repeats if torch.equal(new_order, regular) else 1


def select_encodings(
    new_order: Tensor, hypotheses: int, sentences: int
) -> tuple[int, Tensor | None]:
    """Return the hypotheses that share each encoding, and the encodings to select; None for all.

    A beam search first repeats each sentence, whose hypotheses then share its encoding and stay
    consecutive. After an order that separates them each has its own. On a GPU such an order must
    change their number, and other orders always select, to avoid a device sync.
    """
    if hypotheses == 1:
        hypotheses = count_repeats(new_order, sentences)
        if hypotheses > 1:
            return hypotheses, None
    encodings = new_order // hypotheses
    kept, on_cpu = encodings[::hypotheses], new_order.device.type == "cpu"
    if len(encodings) % hypotheses or (
        on_cpu and not torch.equal(kept.repeat_interleave(hypotheses), encodings)
    ):
        hypotheses, kept = 1, encodings
    is_identity = on_cpu and torch.equal(kept, torch.arange(sentences, device="cpu"))
    return hypotheses, None if is_identity else kept


class RowMoves:
    """Cached positions of a batch that an order of its hypotheses changes, for all layers.

    Most hypotheses of a beam search share their first positions, so few rows have to be copied.
    """

    def __init__(self) -> None:
        self.orders = 0
        self.written: Tensor | None = None  # [T, B], the row in which each was written

    def find(self, orders: int, new_order: Tensor, length: int, rows: int) -> Moves:
        """Return the changed indices of ``[T*B]`` and those to copy; None for all.

        Args:
            orders: number of orders that the calling layer has followed.
            length, rows: T and B.
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
                row = changed % rows
                self.moves = changed, changed - row + new_order[row]
        return self.moves


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
            self.buffers.pop(name, None)  # it lacks these positions
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
    for name, cache in incremental_state.items():
        if isinstance(cache, PositionCache):
            cache.reorder(new_order)
        elif isinstance(cache, EncodedKeys):
            sentences = cache.value.size(0)
            cache.hypotheses, kept = select_encodings(new_order, cache.hypotheses, sentences)
            if kept is not None:
                incremental_state[name] = cache.select(kept)


def _no_padding(key: Tensor) -> Tensor:
    return torch.zeros(key.shape[:2], dtype=torch.bool, device=key.device)
