"""Memory and time of a training step against the length of the sentences: Figure 1(a, b) of MTSA.

    python benchmarks/sequence_length.py
    python benchmarks/sequence_length.py --device cuda --lengths 16 32 64 128 256 512

As in the paper: 64 sentences, 300 features, and MTSA beside a Bi-LSTM, a Bi-GRU, CNNs,
multi-head attention, DiSAN and Bi-BloSAN. Every point is measured in a process of its own, the
mechanisms taking turns. A step is forward and backward, without an optimizer. Memory is what the
step needs at its peak beyond parameters and input.
"""

import argparse
import json
import logging
import resource
import statistics
import subprocess
import sys
from functools import partial
from pathlib import Path

import machine
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from fairseq_posattn.attention import (  # noqa: E402
    DirectionalSelfAttention,
    DotProductAttention,
    SourceMaps,
    TensorizedAttention,
)
from fairseq_posattn.common.files import output_file, write_json  # noqa: E402
from fairseq_posattn.model.encoders.bi_blosan import BiBloSAN  # noqa: E402
from fairseq_posattn.model.encoders.cnn import HierarchicalCNN, NGramConvolutions  # noqa: E402
from fairseq_posattn.model.encoders.mtsa import TensorizedEncoder  # noqa: E402
from fairseq_posattn.model.encoders.recurrent import BiLSTM, Recurrent  # noqa: E402

MIB = 2**20
HEADS = 4


class MultiHead(nn.Module):
    """Multi-head dot-product attention of batches that come first."""

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
    parser = machine.make_parser(__doc__)
    parser.add_argument(
        "--lengths",
        nargs="+",
        type=int,
        default=[8, 16, 32, 48, 64, 96, 128, 192, 256],
        help="words in each sentence",
    )
    parser.add_argument(
        "--mechanisms", nargs="+", choices=MECHANISMS, default=list(MECHANISMS), help="which"
    )
    parser.add_argument("--sentences", type=int, default=64, help="in a batch")
    parser.add_argument("--features", type=int, default=300, help="of a word")
    parser.add_argument("--steps", type=int, default=3, help="counted steps")
    machine.add_device(parser, dtype=False)
    parser.add_argument(
        "--memory",
        type=float,
        default=12,
        metavar="GIB",
        help="a mechanism's longer sentences are left out where they would probably need more, "
        "by the square of the length",
    )
    parser.add_argument(
        "--picture", type=output_file, metavar="FILE", help="draw it here (png, svg, pdf)"
    )
    parser.add_argument("--draw", type=Path, metavar="JSON", help="only draw an earlier --json")
    parser.add_argument("--point", nargs=2, help=argparse.SUPPRESS)  # one point, in this process
    return parser.parse_args()


def step(module, words):
    module(words).sum().backward()


def peak_bytes(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure_point(name, length, arguments):
    """Seconds of each step, and bytes at the peak of the first, of one mechanism at one length."""
    torch.manual_seed(1)
    device = arguments.device
    module = MECHANISMS[name](arguments.features).to(device)
    make = partial(torch.randn, device=device)
    step(module, make(2, 2, arguments.features))  # loads what the first step loads
    words = make(arguments.sentences, length, arguments.features)
    before = peak_bytes(device) if device == "cpu" else torch.cuda.memory_allocated()
    step(module, words)
    used = peak_bytes(device) - before
    seconds = []
    for _ in range(arguments.steps):
        start = machine.now(device)
        step(module, words)
        seconds.append(machine.now(device) - start)
    return {"mechanism": name, "length": length, "bytes": used, "seconds": seconds}


def measure_all(arguments):
    """All points, every one in a process of its own."""
    points, left_out = [], set()
    settings = ("sentences", "features", "steps", "device")
    options = [word for name in settings for word in (f"--{name}", str(getattr(arguments, name)))]
    pairs = [(length, name) for length in arguments.lengths for name in arguments.mechanisms]
    for length, name in tqdm(pairs, unit="point"):
        if name in left_out:
            continue
        command = [sys.executable, __file__, "--point", name, str(length), *options]
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode:
            raise SystemExit(f"{name} at length {length} failed:\n{result.stderr}")
        points.append(json.loads(result.stdout))
        later = [other for other in arguments.lengths if other > length]
        if later and points[-1]["bytes"] * (later[0] / length) ** 2 > arguments.memory * 2**30:
            left_out.add(name)
    return {
        **machine.describe(arguments.device, "float32"),
        **{name: getattr(arguments, name) for name in ("sentences", "features", "steps")},
        "points": points,
    }


def draw(report, path):
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


def print_table(report):
    for point in report["points"]:
        print(
            "{mechanism:>12} {length:6d} words {mib:10.1f} MiB {ms:10.1f} ms".format(
                **point, mib=point["bytes"] / MIB, ms=1000 * statistics.median(point["seconds"])
            )
        )


def main():
    arguments = parse_arguments()
    logging.disable(logging.INFO)  # of matplotlib, which fairseq's import makes talkative
    if arguments.point:
        name, length = arguments.point
        print(json.dumps(measure_point(name, int(length), arguments)))
        return
    report = json.loads(arguments.draw.read_text()) if arguments.draw else measure_all(arguments)
    print_table(report)
    if arguments.json:
        write_json(arguments.json, report, indent=1)
    if arguments.picture:
        draw(report, arguments.picture)


if __name__ == "__main__":
    main()
