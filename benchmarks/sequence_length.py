"""Memory and time of a training step by sentence length: Figure 1(a, b) of MTSA.

    python benchmarks/sequence_length.py
    python benchmarks/sequence_length.py --device cuda --lengths 16 32 64 128 256 512

As in the paper: 64 sentences, 300 features, and MTSA beside a Bi-LSTM, a Bi-GRU, CNNs, multi-head
attention, DiSAN and Bi-BloSAN, which take turns. A step is forward and backward, without an
optimizer. Memory is the peak of a step beyond parameters and input, on a CPU in a process for each.
"""

import statistics
import sys
from pathlib import Path

import machine
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fairseq_posattn.attention import (  # noqa: E402
    DirectionalSelfAttention,
    DotProductAttention,
    SourceMaps,
    TensorizedAttention,
)
from fairseq_posattn.model.encoders.bi_blosan import BiBloSAN  # noqa: E402
from fairseq_posattn.model.encoders.cnn import HierarchicalCNN, NGramConvolutions  # noqa: E402
from fairseq_posattn.model.encoders.mtsa import TensorizedEncoder  # noqa: E402
from fairseq_posattn.model.encoders.recurrent import BiLSTM, Recurrent  # noqa: E402

MIB = 2**20
HEADS = 4


class MultiHead(nn.Module):
    """Multi-head dot-product attention, batch first."""

    def __init__(self, dim):
        super().__init__()
        self.projection = nn.Linear(dim, 3 * dim)
        self.attention = DotProductAttention()
        self.output = nn.Linear(dim, dim)

    def forward(self, words):
        parts = self.projection(words).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        context = self.attention(words, *parts)
        return self.output(context.transpose(1, 2).flatten(2))


def mtsa(dim):
    """Return MTSA's encoder."""
    attention = TensorizedAttention(
        HEADS, dim // HEADS, source=SourceMaps("value", activation=F.elu), fusion_gate=True
    )
    return TensorizedEncoder(dim, dim, HEADS, attention)


MECHANISMS = {
    "Bi-LSTM": lambda dim: BiLSTM(dim, dim),
    "Bi-GRU": lambda dim: Recurrent(nn.GRU, dim, dim, bidirectional=True),
    "CNN": lambda dim: NGramConvolutions(dim, dim),
    "Hrchy-CNN": lambda dim: HierarchicalCNN(dim, dim, (5, 5, 5)),
    "multi-head": MultiHead,
    "MTSA": mtsa,
    "DiSAN": lambda dim: DirectionalSelfAttention(dim, dim // 2),
    "Bi-BloSAN": lambda dim: BiBloSAN(dim, dim),
}


def measure(arguments):
    """Yield peak bytes and the seconds of each step, by mechanism and length."""
    points, turns, left_out, sentences = [], {}, set(), arguments.sentences
    for place, length in enumerate(arguments.lengths):
        for name in arguments.mechanisms:
            if name in left_out:
                continue
            module = MECHANISMS[name](arguments.features).to(arguments.device)
            first, step = (
                training_step(module, shape, arguments.device)
                for shape in ((2, 2, arguments.features), (sentences, length, arguments.features))
            )
            peak = machine.peak_bytes(step, arguments.device, first)
            points.append({"mechanism": name, "length": length, "bytes": peak})
            turns.setdefault(length, []).append(step)
            longer = arguments.lengths[place + 1 :]
            if longer and peak * (longer[0] / length) ** 2 > arguments.memory * 2**30:
                left_out.add(name)
    # Times come last: processes are forked above, before PyTorch has threads.
    rounds = arguments.steps, 1, arguments.device
    times = [machine.take_turns(f"{n} tokens", steps, *rounds) for n, steps in turns.items()]
    each = [seconds for of_length in times for seconds in of_length]
    for point, seconds in zip(points, each, strict=True):
        yield {**point, "seconds": seconds}


def training_step(module, shape, device):
    """Return a function that makes a step."""
    words = torch.randn(shape, device=device)
    return lambda: module(words).sum().backward()


def tables(report):
    """Return the report's Markdown: memory and time by length."""
    lengths = sorted({point["length"] for point in report["rows"]})
    rows = {}
    for point in report["rows"]:
        ms = 1000 * statistics.median(point["seconds"])
        name = point["mechanism"]
        row = rows.setdefault(name, {"MiB, ms": name} | dict.fromkeys(lengths))
        row[point["length"]] = f"{point['bytes'] / MIB:,.0f}, {ms:,.0f}"
    rows = [{str(key): cell for key, cell in row.items()} for row in rows.values()]
    return {"": machine.table(rows)}


BENCHMARKS = {
    "": machine.Benchmark(
        {
            "lengths": ([8, 16, 32, 48, 64, 96, 128, 192, 256], "tokens"),
            "mechanisms": (list(MECHANISMS), "mechanisms", MECHANISMS),
            "sentences": (64, "sentences in a batch"),
            "features": (300, "features of a token"),
            "steps": (3, "counted steps"),
            "device": machine.DEVICE["device"],
            "memory": (
                12.0,
                "GiB; leave out longer sentences if a mechanism would need more, by its quadratic "
                "growth",
            ),
        },
        measure,
        tables,
        settings=("sentences", "features", "steps"),
    )
}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
