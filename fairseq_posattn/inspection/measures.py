"""Attention near the query (Fan et al., 2021, eq. 13, Table 5), and cost (MTSA's Table 1)."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from tabulate import tabulate
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

from fairseq_posattn.inspection.attention_layers import AttentionCall, AttentionLayer, watching
from fairseq_posattn.inspection.inputs import load_split
from fairseq_posattn.training.models.classifier import PosAttnClassifier
from fairseq_posattn.training.registered import FairseqTask, utils

SENTENCES, WORDS = 64, 64  # of the generated batch
PASSES = 3
MEGABYTE = 1 << 20
TOKENS_AT_ONCE = 4096  # of sentences up to 64 tokens; of longer sentences fewer, for their weights


def attention_within(weights: Tensor, windows: Sequence[int]) -> Tensor:
    """Return the mean attention ``[..., H, T, T]`` within each window: ``[..., W]``."""
    mean = weights.double().mean(-3)  # [..., T, T]
    positions = torch.arange(mean.size(-1))
    distances = (positions[:, None] - positions).abs()  # [T, T]
    within = [mean.masked_fill(distances > window, 0.0) for window in windows]
    return torch.stack([weights.sum(-1).mean(-1) for weights in within], dim=-1)


def batches_of_one_length(sentences: Sequence[Tensor]) -> Iterator[Tensor]:
    """Yield batches ``[B, T]`` with every sentence ``[T]`` once, shortest first, none padded."""
    by_length: dict[int, list[Tensor]] = defaultdict(list)
    for sentence in sentences:
        by_length[len(sentence)].append(sentence)
    for length in sorted(by_length):
        size = max(1, TOKENS_AT_ONCE // max(length, length**2 // 64))
        yield from torch.stack(by_length[length]).split(size)


def locality(
    encoder: nn.Module, layers: list[AttentionLayer], sentences: list[Tensor], windows: list[int]
) -> list[dict[str, Any]]:
    """Return rows of ``window``, ``layer``, ``sublayer`` and ``percent`` (MANs eq. 13)."""
    total = torch.zeros(len(layers), len(windows), dtype=torch.float64)

    def observe(index: int, call: AttentionCall) -> None:
        total[index] += attention_within(call.layer.weights(call.result), windows).sum(0)

    with torch.no_grad(), tqdm(total=len(sentences), unit=" sentences", disable=None) as progress:
        for batch in batches_of_one_length(sentences):
            with watching(layers, observe):
                encoder(src_tokens=batch, src_lengths=torch.full((len(batch),), batch.size(1)))
            progress.update(len(batch))
    percents = 100 * total / len(sentences)
    return [
        {"window": window, **layer.labels, "percent": value}
        for layer, values in zip(layers, percents.tolist(), strict=True)
        for window, value in zip(windows, values, strict=True)
    ]


def locality_table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as the paper's table: layers in columns, sublayers in rows."""
    columns = ("window", "sublayer", "layer")
    windows, names, layers = (list(dict.fromkeys(row[name] for row in rows)) for name in columns)
    percents = {(row["window"], row["sublayer"], row["layer"]): row["percent"] for row in rows}
    table = [["window", "sublayer", *(f"layer {layer}" for layer in layers)]]
    for window in windows:
        for name in names:
            numbers = [f"{percents[window, name, layer]:.2f}" for layer in layers]
            table.append([str(window), name, *numbers])
    alignment = ["right", "left", *["right"] * len(layers)]
    return str(tabulate(table, tablefmt="plain", colalign=alignment, disable_numparse=True))


def inference_seconds(
    model: PosAttnClassifier, task: FairseqTask, split: str, batch_size: int, device: torch.device
) -> float:
    """Return the mean time of several passes over a split, with batches already on the device."""
    iterator = task.get_batch_iterator(
        load_split(task, split), max_sentences=batch_size, max_positions=model.max_positions()
    )
    batches = [
        utils.apply_to_sample(lambda tensor: tensor.to(device), batch)
        for batch in iterator.next_epoch_itr(shuffle=False)
    ]
    head = next(iter(model.classification_heads))

    def classify(some: Sequence[dict[str, Any]]) -> None:
        for batch in some:
            model(**batch["net_input"], features_only=True, classification_head_name=head)
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    with torch.no_grad():
        classify(batches[:1])  # warm-up
        start = time.perf_counter()
        for _ in range(PASSES):
            classify(batches)
    return (time.perf_counter() - start) / PASSES


def update_megabytes(model: PosAttnClassifier, device: torch.device) -> float:
    """Return the peak memory of the encoder's forward and backward pass, without parameters."""
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
    activities = [ProfilerActivity.CPU]
    with profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        work()
    taken = peak = 0
    events = profiler.profiler.kineto_results.events()
    for event in sorted(events, key=lambda event: event.start_ns()):
        if event.name() == "[memory]":  # allocated or freed
            taken += event.nbytes()
            peak = max(peak, taken)
    return peak
