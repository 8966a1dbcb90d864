"""Time and memory of the attention functions beside plain attention, by length, in one run.

    python benchmarks/attention.py --device cuda --json attention.json --plot attention.png
    python benchmarks/attention.py --quick

Every mechanism by every implementation that can serve it on this machine, and by PyTorch's
FlexAttention, forward alone and as a training step (forward and backward), beside PyTorch's
``scaled_dot_product_attention`` without any mask: "plain". A batch has as many sentences as make up
--tokens. All take turns, round by round: what disturbs the machine disturbs all, and a ratio is the
median over the rounds of time over plain's in the same round. Memory, on a GPU, is what a pass
needs at its peak beyond its inputs.
"""

import statistics
import sys
from functools import partial
from pathlib import Path

import flex
import machine
import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from fairseq_posattn.attention.cases import CASES, Sizes  # noqa: E402
from fairseq_posattn.common.files import output_file  # noqa: E402

MIB = 2**20
LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
PASSES = ("forward", "training")
IMPLEMENTATIONS = ("reference", "sdpa", "flex", "triton")
PLAIN = ("plain", "sdpa")


MECHANISMS = ("dman", "da", "mtsa", "mtsa_identity", "mpsan")


def plain(query, key, value, impl, **dropout):
    return F.scaled_dot_product_attention(query, key, value, **dropout)


def inputs_of(name, sizes, arguments):
    """The function, and all that it is given: of plain attention, the vectors that others have."""
    case = CASES["san" if name == "plain" else name]
    dtype = getattr(torch, arguments.dtype)
    given = case.arguments(sizes, dtype, arguments.device)
    return plain if name == "plain" else case.function, given


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument("--mechanisms", nargs="+", choices=CASES, default=MECHANISMS)
    parser.add_argument(
        "--implementations", nargs="+", choices=IMPLEMENTATIONS, default=list(IMPLEMENTATIONS)
    )
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, help="of the sentences")
    parser.add_argument("--tokens", type=int, default=8192, help="in a batch, of all sentences")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--features", type=int, default=64, help="of a head")
    parser.add_argument("--dropout", type=float, default=0.0, help="probability, plain's too")
    parser.add_argument(
        "--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cpu or cuda"
    )
    parser.add_argument(
        "--dtype",
        choices=["float32", "float16", "bfloat16"],
        help="precision; default: bfloat16 on a GPU, float32 on a CPU",
    )
    parser.add_argument("--rounds", type=int, default=20, help="counted turns of each")
    parser.add_argument("--warmup", type=int, default=5, help="turns before those")
    parser.add_argument(
        "--largest-matrix",
        type=float,
        metavar="GIB",
        help="leave out what makes tensors of all pairs, where one in float32 is larger than this; "
        "default: 16 on a GPU, 1 on a CPU",
    )
    parser.add_argument(
        "--quick", action="store_true", help="lengths 32 and 128, 1024 tokens, 3 rounds: to try it"
    )
    parser.add_argument(
        "--plot", type=output_file, metavar="FILE", help="also draw them here, .png or .pdf"
    )
    arguments = parser.parse_args()
    if arguments.dtype is None:
        arguments.dtype = "bfloat16" if arguments.device == "cuda" else "float32"
    if arguments.largest_matrix is None:
        arguments.largest_matrix = 16.0 if arguments.device == "cuda" else 1.0
    if arguments.quick:
        arguments.lengths, arguments.tokens = [32, 128], 1024
        arguments.rounds, arguments.warmup = 3, 1
    if min(arguments.lengths) < 1 or arguments.tokens < 1 or arguments.rounds < 1:
        parser.error("--lengths, --tokens and --rounds must be 1 or more")
    return arguments


class Contestant:
    """One mechanism by one implementation at one length, forward alone or as a training step."""

    def __init__(self, name, impl, sizes, arguments, training):
        self.name, self.impl, self.training = name, impl, training
        self.device, self.peak_mib = arguments.device, None
        function, given = inputs_of(name, sizes, arguments)
        if impl == "flex":
            function = partial(flex.attend, name)
        self.tensors = [t for t in given.values() if torch.is_tensor(t) and t.requires_grad]
        options = {"impl": impl, "dropout_p": arguments.dropout}
        self.attend = partial(function, **given, **options)

    def step(self):
        if not self.training:
            with torch.no_grad():
                self.attend()
            return
        for tensor in self.tensors:
            tensor.grad = None
        context = self.attend()
        context.backward(context.detach())

    def take_turn(self) -> float:
        """Seconds."""
        if self.device != "cuda":
            start = machine.now(self.device)
            self.step()
            return machine.now(self.device) - start
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.step()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000

    def measure_memory(self):
        if self.device != "cuda":
            return
        for tensor in self.tensors:
            tensor.grad = None
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        self.step()
        self.peak_mib = (torch.cuda.max_memory_allocated() - before) / MIB


def contestants(arguments, length, training):
    """Those that can serve the call here; the others, each with the reason."""
    batch = max(1, arguments.tokens // length)
    sizes = Sizes(batch, arguments.heads, length, length, arguments.features)
    able = [Contestant(*PLAIN, sizes, arguments, training)]
    unable = []
    pairs_gib = batch * arguments.heads * length**2 * 4 / 2**30
    for name in arguments.mechanisms:
        for impl in arguments.implementations:
            if impl not in ("flex", "triton") and pairs_gib > arguments.largest_matrix:
                unable.append((name, impl, f"a tensor of all pairs has {pairs_gib:.1f} GiB"))
                continue
            contestant = Contestant(name, impl, sizes, arguments, training)
            try:
                contestant.step()
                able.append(contestant)
            except Exception as error:  # of a compiler or a launch, too, by whatever name
                unable.append((name, impl, str(error).splitlines()[0].split(";")[0]))
    return able, unable


def measure(arguments, length, which):
    """The results of one length and pass, and what could not be measured."""
    able, unable = contestants(arguments, length, which == "training")
    for contestant in able:
        contestant.measure_memory()
    turns = [contestant.take_turn for contestant in able]
    name = f"{length} {which}"
    seconds = machine.take_turns(name, turns, arguments.rounds, arguments.warmup, "round")
    results = [
        result(contestant, able[0], times, seconds[0], length, which)
        for contestant, times in zip(able, seconds, strict=True)
    ]
    return results, unable


def result(contestant, beside, seconds, besides, length, which):
    ratios = [a / b for a, b in zip(seconds, besides, strict=True)]
    has_memory = contestant.peak_mib is not None
    return {
        "mechanism": contestant.name,
        "implementation": contestant.impl,
        "length": length,
        "pass": which,
        "milliseconds": 1000 * statistics.median(seconds),
        "time_ratio": statistics.median(ratios),
        "peak_mib": contestant.peak_mib,
        "memory_ratio": contestant.peak_mib / beside.peak_mib if has_memory else None,
    }


def table(results, lengths, which, value, form):
    """A row for each mechanism and implementation, a column for each length, in Markdown."""
    chosen = {
        (r["mechanism"], r["implementation"], r["length"]): r[value]
        for r in results
        if r["pass"] == which
    }
    rows = list(dict.fromkeys(key[:2] for key in chosen))
    lines = ["| mechanism | implementation | " + " | ".join(map(str, lengths)) + " |"]
    lines.append("|---|---|" + "---:|" * len(lengths))
    for row in rows:
        cells = [chosen.get((*row, length)) for length in lengths]
        cells = ["" if cell is None else format(cell, form) for cell in cells]
        lines.append(f"| {' | '.join([*row, *cells])} |")
    return "\n".join(lines)


def tables(report):
    """All that was measured, in Markdown."""
    results, lengths = report["results"], report["lengths"]
    parts = []
    for which in PASSES:
        parts.append(f"{which}, milliseconds")
        parts.append(table(results, lengths, which, "milliseconds", ".3f"))
        parts.append(f"{which}, time over plain attention's")
        parts.append(table(results, lengths, which, "time_ratio", ".2f"))
        if results[0]["peak_mib"] is not None:
            parts.append(f"{which}, peak memory in MiB")
            parts.append(table(results, lengths, which, "peak_mib", ".1f"))
    return "\n\n".join(parts)


def draw(report, path):
    """Time, and on a GPU memory, of a training step over plain attention's, by length."""
    from fairseq_posattn.common.figures import line_style, new_figure, write_picture

    values = {"time_ratio": "time over plain attention's"}
    if report["results"][0]["peak_mib"] is not None:
        values["memory_ratio"] = "peak memory over plain attention's"
    figure = new_figure(6.5 * len(values), 4.5)
    panels = figure.subplots(1, len(values), squeeze=False)[0]
    training = [r for r in report["results"] if r["pass"] == "training"]
    names = dict.fromkeys((r["mechanism"], r["implementation"]) for r in training)
    for panel, (value, label) in zip(panels, values.items(), strict=True):
        for number, name in enumerate(names):
            points = [r for r in training if (r["mechanism"], r["implementation"]) == name]
            lengths, heights = [r["length"] for r in points], [r[value] for r in points]
            panel.plot(lengths, heights, label=" ".join(name), marker=".", **line_style(number))
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xlabel("positions of a sentence")
        panel.set_ylabel(label)
    panels[0].legend(fontsize="small")
    figure.suptitle("Training step, {dtype}, {device}".format(**report))
    write_picture(figure, path)


def main():
    arguments = parse_arguments()
    torch.manual_seed(1)
    report = machine.describe(arguments.device, arguments.dtype)
    for name in ("tokens", "heads", "features", "dropout", "rounds", "lengths"):
        report[name] = getattr(arguments, name)
    report["results"] = []
    reasons = {}
    for length in arguments.lengths:
        for which in PASSES:
            results, unable = measure(arguments, length, which)
            report["results"] += results
            for name, impl, reason in unable:
                reasons.setdefault((name, impl, reason), []).append(length)
    print(
        "{device}, {threads} threads, {dtype}, torch {torch}: {tokens} tokens, {heads} heads of "
        "{features} features, dropout {dropout}\n".format(**report)
    )
    print(tables(report))
    for (name, impl, reason), lengths in reasons.items():
        lengths = ", ".join(map(str, dict.fromkeys(lengths)))
        print(f"\nnot measured at {lengths}: {name} by {impl}: {reason}")
    machine.keep(report, arguments.json)
    if arguments.plot:
        draw(report, arguments.plot)


if __name__ == "__main__":
    main()
