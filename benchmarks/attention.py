"""Time and memory of the attention functions beside plain attention, by length.

    python benchmarks/attention.py --device cuda --json attention.json

Measures every mechanism by every implementation that serves the call on this machine, forward alone
and as a training step (forward and backward), beside PyTorch's ``scaled_dot_product_attention``
without a mask ("plain"), on a GPU by FlashAttention-2 and by cuDNN. A batch has as many sentences
as make up --tokens. All take turns; a ratio to the first plain attention is the median over rounds.
Memory, on a GPU, is the peak of a pass beyond its inputs. The report is saved after each pass.
"""

import statistics
import sys
from functools import partial
from pathlib import Path

import machine
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from fairseq_posattn.attention.cases import CASES, Sizes  # noqa: E402

MIB = 2**20
LENGTHS = [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]
PASSES = ("forward", "training")
IMPLEMENTATIONS = ("reference", "sdpa", "triton")
MECHANISMS = ("dman", "da", "mtsa", "mtsa_identity", "mpsan")
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
SETTINGS = ("tokens", "heads", "features", "dropout", "rounds", "lengths")


def plain(query, key, value, impl, **dropout):
    """Return plain attention by a backend of ``BACKENDS``, or by PyTorch's choice."""
    if impl not in BACKENDS:
        return F.scaled_dot_product_attention(query, key, value, **dropout)
    with sdpa_kernel(BACKENDS[impl]):
        return F.scaled_dot_product_attention(query, key, value, **dropout)


def parse_arguments():
    """Return the options; defaults depend on the device."""
    parser = machine.make_parser(__doc__)
    parser.add_argument("--mechanisms", nargs="+", choices=CASES, default=MECHANISMS)
    parser.add_argument(
        "--implementations", nargs="+", choices=IMPLEMENTATIONS, default=list(IMPLEMENTATIONS)
    )
    parser.add_argument("--lengths", nargs="+", type=int, default=LENGTHS, help="positions")
    parser.add_argument("--tokens", type=int, default=8192, help="positions of a batch")
    parser.add_argument("--heads", type=int, default=8)
    parser.add_argument("--features", type=int, default=64, help="per head")
    parser.add_argument("--dropout", type=float, default=0.0, help="probability, also of plain")
    machine.add_device(parser)
    cuda = torch.cuda.is_available()
    parser.set_defaults(device="cuda" if cuda else "cpu", dtype=None)
    parser.add_argument("--rounds", type=int, default=20, help="counted rounds")
    parser.add_argument("--warmup", type=int, default=5, help="rounds before those")
    parser.add_argument(
        "--largest-matrix",
        type=float,
        metavar="GIB",
        help="leave out implementations whose float32 tensor of all pairs would be larger "
        "(default: 16 on a GPU, 1 on a CPU)",
    )
    arguments = parser.parse_args()
    on_gpu = arguments.device == "cuda"
    arguments.dtype = arguments.dtype or ("bfloat16" if on_gpu else "float32")
    if arguments.largest_matrix is None:
        arguments.largest_matrix = 16.0 if on_gpu else 1.0
    if min(arguments.lengths) < 1 or arguments.tokens < 1 or arguments.rounds < 1:
        parser.error("--lengths, --tokens and --rounds must be 1 or more")
    return arguments


class Contestant:
    """A mechanism by one implementation at one length, forward alone or as a training step."""

    def __init__(self, name, impl, sizes, arguments, training):
        self.name, self.impl, self.training = name, impl, training
        case = CASES["san" if name == "plain" else name]
        given = case.arguments(sizes, getattr(torch, arguments.dtype), arguments.device)
        function = plain if name == "plain" else case.function
        self.tensors = [t for t in given.values() if torch.is_tensor(t) and t.requires_grad]
        self.attend = partial(function, **given, impl=impl, dropout_p=arguments.dropout)

    def step(self):
        if not self.training:
            with torch.no_grad():
                self.attend()
            return
        for tensor in self.tensors:
            tensor.grad = None
        context = self.attend()
        context.backward(context.detach())


def contestants(arguments, length, training):
    """Return those that serve the call here, and (name, implementation, reason) of the others."""
    batch = max(1, arguments.tokens // length)
    sizes = Sizes(batch, arguments.heads, length, length, arguments.features)
    able, unable = [], []
    fused = arguments.device == "cuda" and arguments.dtype != "float32"
    wanted = [("plain", impl) for impl in (BACKENDS if fused else ["sdpa"])]
    wanted += [(n, impl) for n in arguments.mechanisms for impl in arguments.implementations]
    pairs_gib = batch * arguments.heads * length**2 * 4 / 2**30
    for name, impl in wanted:
        if (
            impl in ("reference", "sdpa")
            and name != "plain"
            and pairs_gib > arguments.largest_matrix
        ):
            unable.append((name, impl, f"a tensor of all pairs has {pairs_gib:.1f} GiB"))
            continue
        contestant = Contestant(name, impl, sizes, arguments, training)
        try:
            contestant.step()
            able.append(contestant)
        except Exception as error:  # compilers and launches have various exception types
            unable.append((name, impl, str(error).splitlines()[0].split(";")[0]))
    return able, unable


def measure(arguments, length, which):
    """Return the rows of one length and pass, and what could not be measured."""
    able, unable = contestants(arguments, length, which == "training")
    on_gpu = arguments.device == "cuda"
    peaks = [machine.peak_bytes(one.step, "cuda") / MIB if on_gpu else None for one in able]
    rounds = arguments.rounds, arguments.warmup, arguments.device, machine.seconds_on_gpu
    seconds = machine.take_turns(f"{length} {which}", [one.step for one in able], *rounds)
    rows = [
        {
            "mechanism": contestant.name,
            "implementation": contestant.impl,
            "length": length,
            "pass": which,
            "milliseconds": round(1000 * statistics.median(times), 3),
            "peak_mib": peak,
            **machine.compare(times, seconds[0]),
        }
        for contestant, times, peak in zip(able, seconds, peaks, strict=True)
    ]
    return rows, unable


def tables(report):
    """Return the report's Markdown."""
    return {
        "": machine.table(
            [
                {
                    **{key: row[key] for key in ("mechanism", "implementation", "length", "pass")},
                    "ms": f"{row['milliseconds']:.3f}",
                    "time / plain's": machine.ratio(row),
                    "peak MiB": "" if row["peak_mib"] is None else f"{row['peak_mib']:.1f}",
                }
                for row in report["results"]
            ]
        )
    }


def main():
    """Measure all lengths and passes."""
    arguments = parse_arguments()
    torch.manual_seed(1)
    report = machine.describe(arguments.device, arguments.dtype)
    report |= {name: getattr(arguments, name) for name in SETTINGS} | {"results": []}
    reasons = {}
    for length in arguments.lengths:
        for which in PASSES:
            rows, unable = measure(arguments, length, which)
            report["results"] += rows
            for name, impl, reason in unable:
                reasons.setdefault((name, impl, reason), []).append(length)
            machine.save("attention", report, arguments.json, tables)
    machine.finish("attention", report, arguments.json, tables)
    for (name, impl, reason), lengths in reasons.items():
        lengths = ", ".join(map(str, dict.fromkeys(lengths)))
        print(f"\nnot measured at {lengths}: {name} by {impl}: {reason}")


if __name__ == "__main__":
    main()
