"""Time and memory of the attention functions beside plain attention, by length.

    python benchmarks/attention.py --device cuda --json attention.json

Measures every mechanism by every implementation that serves the call on this machine, forward alone
and as a training step (forward and backward), beside PyTorch's ``scaled_dot_product_attention``
without a mask ("plain"), on a GPU by FlashAttention-2 and by cuDNN. A batch has as many sentences
as make up --tokens. All take turns; a ratio to the first plain attention is the median over rounds.
Memory, on a GPU, is the peak of a pass beyond its inputs.
"""

import sys
from functools import partial
from pathlib import Path

import machine
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fairseq_posattn.attention.cases import CASES, Sizes  # noqa: E402

MIB = 2**20
PASSES = ("forward", "training")
IMPLEMENTATIONS = ["reference", "sdpa", "triton"]
BACKENDS = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
ON_GPU = torch.cuda.is_available()


def plain(query, key, value, impl, **dropout):
    """Return plain attention by a backend of ``BACKENDS``, or by PyTorch's choice."""
    if impl not in BACKENDS:
        return F.scaled_dot_product_attention(query, key, value, **dropout)
    with sdpa_kernel(BACKENDS[impl]):
        return F.scaled_dot_product_attention(query, key, value, **dropout)


def make_step(name, impl, sizes, arguments, training):
    """Return a function that computes a mechanism by one implementation, with gradients or not."""
    case = CASES["san" if name == "plain" else name]
    given = case.arguments(sizes, getattr(torch, arguments.dtype), arguments.device)
    function = plain if name == "plain" else case.function
    tensors = [one for one in given.values() if torch.is_tensor(one) and one.requires_grad]
    attend = partial(function, **given, impl=impl, dropout_p=arguments.dropout)

    def step():
        for tensor in tensors:
            tensor.grad = None
        with torch.set_grad_enabled(training):
            context = attend()
        if training:
            context.backward(context.detach())

    return step


def steps(arguments, length, training):
    """Return steps by name and implementation, and why the others do not serve the call."""
    batch = max(1, arguments.tokens // length)
    sizes = Sizes(batch, arguments.heads, length, length, arguments.features)
    pairs_gib = batch * arguments.heads * length**2 * 4 / 2**30
    fused = arguments.device == "cuda" and arguments.dtype != "float32"
    wanted = [("plain", impl) for impl in (BACKENDS if fused else ["sdpa"])]
    wanted += [(n, impl) for n in arguments.mechanisms for impl in arguments.implementations]
    able, unable = {}, {}
    for name, impl in wanted:
        has_pairs = name != "plain" and impl in ("reference", "sdpa")
        if has_pairs and pairs_gib > arguments.largest_matrix:
            unable[name, impl] = f"a tensor of all pairs has {pairs_gib:.1f} GiB"
            continue
        step = make_step(name, impl, sizes, arguments, training)
        try:
            step()
            able[name, impl] = step
        except Exception as error:  # compilers and launches have various exception types
            unable[name, impl] = str(error).splitlines()[0].split(";")[0]
    return able, unable


def measure(arguments):
    """Yield a row for each length, pass, mechanism and implementation."""
    on_gpu = arguments.device == "cuda"
    rounds = arguments.rounds, arguments.warmup, arguments.device
    for length in arguments.lengths:
        for which in PASSES:
            able, unable = steps(arguments, length, which == "training")
            peaks = [
                machine.peak_bytes(one, "cuda") / MIB if on_gpu else None for one in able.values()
            ]
            seconds = machine.take_turns(f"{length} {which}", list(able.values()), *rounds)
            for (name, impl), times, peak in zip(able, seconds, peaks, strict=True):
                yield {
                    **{"mechanism": name, "implementation": impl, "length": length, "pass": which},
                    "milliseconds": machine.milliseconds(times, digits=3),
                    "peak_mib": peak,
                    **machine.compare(times, seconds[0]),
                }
            for (name, impl), reason in unable.items():
                named = {"mechanism": name, "implementation": impl, "length": length}
                yield {**named, "pass": which, "reason": reason}


def tables(report):
    """Return the report's Markdown: the measurements, and what was not measured."""
    rows, left_out = [], {}
    for row in report["rows"]:
        if "reason" in row:
            key = row["mechanism"], row["implementation"], row["reason"]
            left_out.setdefault(key, {})[str(row["length"])] = None
            continue
        rows.append(
            {
                **{key: row[key] for key in ("mechanism", "implementation", "length", "pass")},
                "ms": f"{row['milliseconds']:.3f}",
                "time / plain's": machine.ratio(row),
                "peak MiB": "" if row["peak_mib"] is None else f"{row['peak_mib']:.1f}",
            }
        )
    notes = [
        f"Not measured at {', '.join(lengths)}: {name} by {impl}: {reason}."
        for (name, impl, reason), lengths in left_out.items()
    ]
    return {"": "\n\n".join([machine.table(rows), *notes])}


BENCHMARKS = {
    "": machine.Benchmark(
        {
            "mechanisms": (["dman", "da", "mtsa", "mtsa_identity", "mpsan"], "mechanisms", CASES),
            "implementations": (IMPLEMENTATIONS, "implementations", IMPLEMENTATIONS),
            "lengths": ([32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], "positions"),
            "tokens": (8192, "positions of a batch"),
            "heads": (8, "attention heads"),
            "features": (64, "features per head"),
            "dropout": (0.0, "probability, also of plain"),
            "device": ("cuda" if ON_GPU else "cpu", *machine.DEVICE["device"][1:]),
            "dtype": ("bfloat16" if ON_GPU else "float32", *machine.DEVICE["dtype"][1:]),
            "rounds": (20, "counted rounds"),
            "warmup": (5, "rounds before those"),
            "largest_matrix": (
                16.0 if ON_GPU else 1.0,
                "GiB; leave out implementations whose float32 tensor of all pairs is larger",
            ),
        },
        measure,
        tables,
        settings=("tokens", "heads", "features", "dropout", "rounds", "lengths"),
    )
}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
