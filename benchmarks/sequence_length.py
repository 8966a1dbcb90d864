"""Memory and time of a training step by sentence length: Figure 1(a, b) of MTSA.

    python benchmarks/sequence_length.py
    python benchmarks/sequence_length.py --device cuda --lengths 16 32 64 128 256 512

As in the paper: 64 sentences, 300 features, and MTSA beside a Bi-LSTM, a Bi-GRU, CNNs, multi-head
attention, DiSAN and Bi-BloSAN, which take turns. A step is forward and backward, without an
optimizer. Memory is the peak of a step beyond parameters and input, on a CPU in a process for each.
"""

import json
import logging
import statistics
import sys
from pathlib import Path

import machine
import torch
import torch.nn.functional as F
from torch import nn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from fairseq_posattn.attention import (  # noqa: E402
    DirectionalSelfAttention,
    DotProductAttention,
    SourceMaps,
    TensorizedAttention,
)
from fairseq_posattn.common.files import output_file  # noqa: E402
from fairseq_posattn.model.encoders.bi_blosan import BiBloSAN  # noqa: E402
from fairseq_posattn.model.encoders.bilstm import BiLSTM  # noqa: E402
from fairseq_posattn.model.encoders.cnn import NGramConvolutions  # noqa: E402
from fairseq_posattn.model.encoders.hierarchical_cnn import HierarchicalCNN  # noqa: E402
from fairseq_posattn.model.encoders.mtsa import TensorizedEncoder  # noqa: E402
from fairseq_posattn.model.encoders.recurrent import Recurrent  # noqa: E402

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


def parse_arguments():
    """Return the options."""
    parser = machine.make_parser(__doc__)
    lengths = [8, 16, 32, 48, 64, 96, 128, 192, 256]
    parser.add_argument("--lengths", nargs="+", type=int, default=lengths, help="tokens")
    parser.add_argument(
        "--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS), help="mechanisms"
    )
    parser.add_argument("--sentences", type=int, default=64, help="sentences in a batch")
    parser.add_argument("--features", type=int, default=300, help="features of a token")
    parser.add_argument("--steps", type=int, default=3, help="counted steps")
    machine.add_device(parser, dtype=False)
    parser.add_argument(
        "--memory",
        type=float,
        default=12,
        metavar="GIB",
        help="leave out longer sentences if a mechanism would need more, by its quadratic growth",
    )
    parser.add_argument(
        "--picture", type=output_file, metavar="FILE", help="draw it here (png, svg, pdf)"
    )
    parser.add_argument("--draw", type=Path, metavar="JSON", help="only draw an earlier --json")
    return parser.parse_args()


def measure(arguments):
    """Return peak bytes, then seconds of each step, by mechanism and length."""
    torch.manual_seed(1)
    points, turns, left_out = [], {}, set()
    for place, length in enumerate(arguments.lengths):
        for name in arguments.mechanisms:
            if name in left_out:
                continue
            step = training_step(name, length, arguments)
            peak = machine.peak_bytes(step, arguments.device)
            points.append({"mechanism": name, "length": length, "bytes": peak})
            turns.setdefault(length, []).append(step)
            longer = arguments.lengths[place + 1 :]
            if longer and peak * (longer[0] / length) ** 2 > arguments.memory * 2**30:
                left_out.add(name)
    # Times come last: processes are forked above, before PyTorch has threads.
    rounds = arguments.steps, 1, arguments.device
    times = [machine.take_turns(f"{n} tokens", steps, *rounds) for n, steps in turns.items()]
    each = [seconds for of_length in times for seconds in of_length]
    return [{**point, "seconds": seconds} for point, seconds in zip(points, each, strict=True)]


def training_step(name, length, arguments):
    """Return a function that makes a step."""
    module = MECHANISMS[name](arguments.features).to(arguments.device)
    shape = arguments.sentences, length, arguments.features
    words = torch.randn(shape, device=arguments.device)
    return lambda: module(words).sum().backward()


def draw(report, path):
    """Draw memory and time by length."""
    from fairseq_posattn.common.figures import new_figure, write_picture

    figure = new_figure(10, 4)
    memory, time = figure.subplots(1, 2)
    for name in dict.fromkeys(point["mechanism"] for point in report["points"]):
        points = [point for point in report["points"] if point["mechanism"] == name]
        lengths = [point["length"] for point in points]
        memory.plot(lengths, [point["bytes"] / MIB for point in points], marker="o", label=name)
        milliseconds = [1000 * statistics.median(point["seconds"]) for point in points]
        time.plot(lengths, milliseconds, marker="o", label=name)
    for axes, title, unit in (
        (memory, "(a) memory", "MiB at the peak of a training step"),
        (time, "(b) time", "ms for a training step"),
    ):
        axes.set(title=title, xlabel="words in a sentence", ylabel=unit, yscale="log")
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({point["length"] for point in report["points"]}))
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    memory.legend()
    figure.suptitle(
        "{sentences} sentences, {features} features, {dtype}: {device}, threads: {threads}, "
        "torch {torch}, {date}".format(**report),
        fontsize=9,
    )
    write_picture(figure, path)


def tables(report):
    """Return the report's Markdown: memory and time by length."""
    lengths = sorted({point["length"] for point in report["points"]})
    rows = {}
    for point in report["points"]:
        ms = 1000 * statistics.median(point["seconds"])
        name = point["mechanism"]
        row = rows.setdefault(name, {"MiB, ms": name} | dict.fromkeys(lengths))
        row[point["length"]] = f"{point['bytes'] / MIB:,.0f}, {ms:,.0f}"
    rows = [{str(key): cell for key, cell in row.items()} for row in rows.values()]
    return {"": machine.table(rows)}


def main():
    """Measure, or draw an earlier report."""
    arguments = parse_arguments()
    logging.disable(logging.INFO)  # importing fairseq makes matplotlib log
    if arguments.draw:
        report = json.loads(arguments.draw.read_text(encoding="utf-8"))
    else:
        settings = {name: getattr(arguments, name) for name in ("sentences", "features", "steps")}
        report = machine.describe(arguments.device, "float32") | settings
        report["points"] = measure(arguments)
    machine.finish("sequence_length", report, arguments.json, tables)
    if arguments.picture:
        draw(report, arguments.picture)


if __name__ == "__main__":
    main()
