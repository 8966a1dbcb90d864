"""Watch attention at work: run the encoder, and measure each call of the mechanisms in it."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from fairseq_posattn.inspection.sublayers import AttentionSublayer

TOKENS_AT_ONCE = 4096  # of sentences up to 64 tokens; of longer ones fewer, for their weights


@dataclass(frozen=True)
class AttentionCall:
    """A call of a mechanism for a batch of sentences of one length, with its weights.

    Attributes:
        mechanism: the module.
        hidden: ``[B, T, C]``, the sublayer's normalised input.
        key, value: ``[B, H, T, D]``.
        weights: ``[B, H, T, T]``, query by key.
    """

    mechanism: nn.Module
    hidden: Tensor
    key: Tensor
    value: Tensor
    weights: Tensor

    @classmethod
    def of(cls, mechanism: nn.Module, args: tuple, weights: Tensor) -> "AttentionCall":
        """Return the call from a mechanism's positional arguments."""
        hidden, _, key, value = args
        return cls(mechanism, hidden, key, value, weights)


def collect(
    encoder: nn.Module,
    sublayers: Sequence[AttentionSublayer],
    sentences: Sequence[Tensor],
    measure: Callable[[AttentionCall], object],
) -> Iterator[tuple[int, list]]:
    """Run the encoder over all sentences, batched by length so that none is padded.

    Args:
        encoder: in evaluation mode.
        sublayers: of the encoder.
        sentences: each ``[T]``.
        measure: called in the midst of the run, so that no weights need to be kept but those that
            it returns.

    Yields:
        The number of sentences in a batch, and what ``measure`` returned for it, for each sublayer.
    """
    for batch in batches_of_one_length(sentences):
        yield len(batch), measure_batch(encoder, sublayers, batch, measure)


def batches_of_one_length(sentences: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield batches ``[B, T]`` with every sentence once, shortest first."""
    by_length = defaultdict(list)
    for sentence in sentences:
        by_length[len(sentence)].append(sentence)
    for length in sorted(by_length):
        size = max(1, TOKENS_AT_ONCE // max(length, length**2 // 64))
        yield from torch.stack(by_length[length]).split(size)


@torch.no_grad()
def measure_batch(encoder, sublayers, batch: Tensor, measure) -> list:
    """Return ``measure`` of each sublayer's call, for a batch ``[B, T]`` without padding."""
    measured = {}

    def observe(index, mechanism, args, weights):
        measured[index] = measure(AttentionCall.of(mechanism, args, weights))

    with watching([sublayer.mechanism for sublayer in sublayers], observe):
        lengths = torch.full((len(batch),), batch.size(1))
        encoder(src_tokens=batch, src_lengths=lengths)
    return [measured[index] for index in range(len(sublayers))]


@contextmanager
def watching(
    modules: Sequence[nn.Module], observe: Callable[[int, nn.Module, tuple, Tensor], None]
):
    """Report every call of the modules within the context, without changing results.

    Args:
        modules: whose ``forward`` takes ``need_weights``, and then returns its result and weights.
        observe: called with the module's number among them, the module, the arguments that it was
            given in order, and the weights.
    """

    def ask(asked, module, args, kwargs):
        asked.append(kwargs.get("need_weights", False))
        return args, {**kwargs, "need_weights": True}

    def see(index, asked, module, args, output):
        result, weights = output
        observe(index, module, args, weights)
        return output if asked.pop() else result

    handles = []
    try:
        for index, module in enumerate(modules):
            asked: list[bool] = []
            hook = partial(ask, asked)
            handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
            handles.append(module.register_forward_hook(partial(see, index, asked)))
        yield
    finally:
        for handle in handles:
            handle.remove()
