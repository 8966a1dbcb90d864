"""Run an encoder, and measure each call of the attention in it."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from fairseq_posattn.inspection.attention_layers import AttentionLayer

Measured = TypeVar("Measured")

TOKENS_AT_ONCE = 4096  # of sentences up to 64 tokens; of longer sentences fewer, for their weights


@dataclass(frozen=True)
class AttentionCall:
    """A call of an attention layer's module.

    Its positional arguments are, of a mechanism, ``hidden [B, T, C]`` (normalized), and query, key
    and value ``[B, H, T, D]``; its result are the weights that the module returned.
    """

    layer: AttentionLayer
    args: tuple[Tensor, ...]
    result: Tensor

    @property
    def weights(self) -> Tensor:
        """Return the weights to show, see :meth:`.AttentionLayer.weights`."""
        return self.layer.weights(self.result)


def batches_of_one_length(sentences: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield batches ``[B, T]`` with every sentence ``[T]`` once, shortest first, none padded."""
    by_length: dict[int, list[Tensor]] = defaultdict(list)
    for sentence in sentences:
        by_length[len(sentence)].append(sentence)
    for length in sorted(by_length):
        size = max(1, TOKENS_AT_ONCE // max(length, length**2 // 64))
        yield from torch.stack(by_length[length]).split(size)


@torch.no_grad()
def measure_batch(
    encoder: nn.Module,
    layers: Sequence[AttentionLayer],
    batch: Tensor,
    measure: Callable[[AttentionCall], Measured],
) -> list[Measured]:
    """Return ``measure`` of each layer's call, made during the run, in a batch ``[B, T]``."""
    measured: dict[int, Measured] = {}

    def observe(index: int, call: AttentionCall) -> None:
        measured[index] = measure(call)

    with watching(layers, observe):
        encoder(src_tokens=batch, src_lengths=torch.full((len(batch),), batch.size(1)))
    return [measured[index] for index in range(len(layers))]


@contextmanager
def watching(
    layers: Sequence[AttentionLayer], observe: Callable[[int, AttentionCall], None]
) -> Iterator[None]:
    """Observe calls of layers' ``forward``, which takes ``need_weights``; results stay the same."""
    needed: list[bool] = []  # whether the model itself needs the weights, of the calls under way
    calls: Counter[nn.Module] = Counter()

    def before(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        needed.append(kwargs.get("need_weights", False))
        return args, {**kwargs, "need_weights": True}

    def after(module: nn.Module, args: Any, output: Any) -> Any:
        result, weights = output
        for index, layer in enumerate(layers):
            if layer.module is module and layer.call == calls[module]:
                observe(index, AttentionCall(layer, args, weights))
        calls[module] += 1
        return output if needed.pop() else result

    with ExitStack() as hooks:
        for module in dict.fromkeys(layer.module for layer in layers):
            hooks.enter_context(module.register_forward_pre_hook(before, with_kwargs=True))
            hooks.enter_context(module.register_forward_hook(after))
        yield
