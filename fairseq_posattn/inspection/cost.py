"""Cost of a classifier: seconds to classify a split, and memory of an update.

As in Shen et al., 2019, "Tensorized Self-Attention", Table 1: the mean time of inference on the
development set, and the memory of a forward and backward pass over generated sentences.
"""

import time
from collections.abc import Callable, Sequence

import torch
from fairseq import utils
from fairseq.tasks import FairseqTask
from torch.profiler import ProfilerActivity, profile

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.models.classifier import PosAttnClassifier

SENTENCES, WORDS = 64, 64  # of the generated batch
PASSES = 3
MEGABYTE = 1 << 20


def inference_seconds(
    model: PosAttnClassifier, task: FairseqTask, split: str, batch_size: int, device: torch.device
) -> float:
    """Return the mean time of several passes over a split, with batches already on the device.

    Args:
        model: on the device, in evaluation mode.
        task: of the model.
        split: name of the split.
        batch_size: sentences or pairs in a batch.
        device: of the model.

    Raises:
        UsageError: there is no such split.
    """
    try:
        task.load_dataset(split)
    except FileNotFoundError as error:
        raise UsageError(f"--split {split}: {error}; name the folder with --data") from error
    batches = [
        utils.apply_to_sample(lambda tensor: tensor.to(device), batch)
        for batch in task.get_batch_iterator(
            task.dataset(split), max_sentences=batch_size, max_positions=model.max_positions()
        ).next_epoch_itr(shuffle=False)
    ]
    head = next(iter(model.classification_heads))

    def classify(some: Sequence[dict]) -> None:
        for batch in some:
            model(**batch["net_input"], features_only=True, classification_head_name=head)

    with torch.no_grad():
        classify(batches[:1])  # warm-up
        _wait(device)
        start = time.perf_counter()
        for _ in range(PASSES):
            classify(batches)
        _wait(device)
    return (time.perf_counter() - start) / PASSES


def update_megabytes(model: PosAttnClassifier, device: torch.device) -> float:
    """Return the peak memory of a forward and backward pass of the encoder.

    It goes from token embeddings to sentence vectors; gradients count, parameters do not.
    """
    encoder = model.encoder.words.train()
    vectors = torch.randn(SENTENCES, WORDS, model.encoder.embed_tokens.embedding_dim)
    vectors = vectors.to(device).requires_grad_()
    padding = torch.zeros(SENTENCES, WORDS, dtype=torch.bool, device=device)

    def update() -> None:
        model.zero_grad()
        encoder(vectors, padding).sum().backward()

    update()  # warm-up
    model.zero_grad()
    return peak_bytes(update, device) / MEGABYTE


def peak_bytes(work: Callable[[], None], device: torch.device) -> int:
    """Return the peak memory of tensors allocated within a function."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        work()
        return torch.cuda.max_memory_allocated(device) - before
    with profile(
        activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True
    ) as profiler:
        work()
    taken = peak = 0
    events = profiler.profiler.kineto_results.events()
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() == "[memory]":  # allocated or freed
            taken += event.nbytes()
            peak = max(peak, taken)
    return peak


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
