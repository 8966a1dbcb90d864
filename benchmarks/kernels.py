"""Instructions, registers and shared memory of the compiled attention kernels, without a GPU.

    python benchmarks/kernels.py --mechanisms dman --features 64 128 --capability 80

Each kernel is compiled as for a training step and assembled for the GPU. The table has the number
of its instructions (per warp, each counted once); those of its largest loop; instructions per
thread and pair of positions in that loop, and how many are special functions; registers of a
thread; spilling instructions of the loop; and shared memory of a program. The exit status is 1 if a
kernel needs more shared memory than the GPU has.
"""

import itertools
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import machine
import no_driver
import torch
import triton
from triton.runtime.jit import JITFunction

from fairseq_posattn.attention.cases import KERNELS, Sizes
from fairseq_posattn.attention.fused import DropoutStreams, Sum, dropped_relu

# KiB of shared memory that one program can have.
SHARED = {80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
HEADS = 2
LAYER = "layer"  # a layer's kernels beside attention, of 8 heads
CALLED_WITH = ["padding", "dropout", "causal"]
SHOWN = ("a pair", "special", "registers", "spills", "shared KiB")
ASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@contextmanager
def recording(compiling=True):
    """Yield a list that collects (kernel, compiled, keyword arguments) instead of launching."""
    launches, run = [], JITFunction.run

    def note(kernel, *args, grid, warmup, **options):
        compiled = run(kernel, *args, grid=grid, warmup=warmup, **options) if compiling else None
        launches.append((kernel, compiled, options))
        return compiled

    with patch.object(JITFunction, "run", note):
        yield launches


def training_step(mechanism, dtype, features, length, chosen=CALLED_WITH):
    if mechanism == LAYER:
        return layer_step(dtype, 8 * features, length)
    case = KERNELS[mechanism]
    arguments = case.arguments(Sizes(1, HEADS, length, length, features), dtype)
    options = {
        "padding": {"key_padding_mask": torch.zeros(1, length, dtype=torch.bool)},
        "dropout": {"dropout_p": 0.1},
        "causal": {"causal": True} if case.attention.causal else {},
    }
    keywords = {key: value for name in chosen for key, value in options[name].items()}
    case(arguments, impl="triton", **keywords).sum().backward()


def layer_step(dtype, features, length):
    """Run the kernels of a layer beside attention, with dropout."""
    norm = torch.nn.LayerNorm(features, dtype=dtype)
    x, output = torch.ones(2, length, 1, features, dtype=dtype, requires_grad=True)
    streams = DropoutStreams()
    total, normalized = Sum(streams, x, output, norm.bias, 0.1).normalize(norm)
    (total + dropped_relu(streams, normalized, 0.1)).sum().backward()


def counts(compiled, options):
    """Return a compiled kernel's columns, from ``warps`` on."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "kernel.cubin"
        binary.write_bytes(compiled.asm["cubin"])
        code = _output(ASSEMBLER / "nvdisasm", binary)
        usage = _output(ASSEMBLER / "cuobjdump", "-res-usage", binary)
    instructions, loop = largest_loop(code.splitlines())
    warps, shared = compiled.metadata.num_warps, compiled.metadata.shared
    block = options.get("BLOCK", 0)
    pairs = options.get("BLOCK_Q", block) * options.get("BLOCK_K", block)

    def per_pair(count):
        return round(count * warps * 32 / pairs, 1) if pairs and loop else None

    return {
        **{"warps": warps, "instructions": instructions, "in the loop": len(loop)},
        "a pair": per_pair(len(loop)),
        "special": per_pair(sum("MUFU" in line for line in loop)),
        "registers": int(re.search(r"REG:(\d+)", usage)[1]),
        "spills": sum(bool(re.search(r"\b(STL|LDL)\b", line)) for line in loop),
        "shared KiB": -(-shared // 1024),
    }


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def largest_loop(lines):
    """Return the number of instructions, and those of the largest innermost loop."""
    labels, code, loops = {}, [], []
    for line in lines:
        if label := re.match(r"(\.L_x_\d+):", line):
            labels[label[1]] = len(code)
        elif re.match(r"\s+/\*[0-9a-f]{4,}\*/", line):
            code.append(line)
            back = re.search(r"BRA.*`\((\.L_x_\d+)\)", line)
            # A branch to itself ends every program.
            if back and labels.get(back[1], len(code)) < len(code) - 1:
                loops.append((labels[back[1]], len(code)))
    inner = [
        (a, b) for a, b in loops if not any(a <= c and d < b or a < c and d <= b for c, d in loops)
    ]
    start, end = max(inner, key=lambda loop: loop[1] - loop[0], default=(0, 0))
    return len(code), code[start:end]


def measure(arguments):
    no_driver.install(arguments.capability)
    sizes = arguments.mechanisms, arguments.dtypes, arguments.features, arguments.lengths
    for mechanism, dtype, features, length in itertools.product(*sizes):
        with recording() as launches:
            step = mechanism, getattr(torch, dtype), features, length
            training_step(*step, arguments.options)
        for kernel, compiled, options in launches:
            row = {"mechanism": mechanism, "dtype": dtype, "features": features}
            row |= {"length": length, "kernel": kernel.__name__}
            yield row | counts(compiled, options)


def table(report):
    """Return the Markdown: a row for each kernel of pairs or layers, columns for each size."""
    rows = {}
    for row in report["rows"]:
        if row["a pair"] is None and row["mechanism"] != LAYER:
            continue
        names = {key: row[key] for key in ("mechanism", "kernel", "dtype", "length")}
        cells = rows.setdefault(tuple(names.values()), names)
        cells |= {f"{key} at {row['features']}": row[key] for key in SHOWN}
    same = [key for key in ("dtype", "length") if len({row[key] for row in rows.values()}) == 1]
    shown = ({key: row[key] for key in row if key not in same} for row in rows.values())
    return {"": machine.table(list(shown))}


OPTIONS = {
    "mechanisms": (list(KERNELS), "mechanisms", [*KERNELS, LAYER]),
    "dtypes": (["bfloat16"], "precisions", machine.DEVICE["dtype"][-1]),
    "features": ([64], "features per head"),
    "lengths": ([32, 512], "positions of a sentence"),
    "options": (CALLED_WITH, "options of the calls", CALLED_WITH),
    "capability": (90, "compute capability of the GPU, 90 for an H100 or H200", SHARED),
}

BENCHMARKS = {
    "": machine.Benchmark(
        OPTIONS, measure, table, ("capability",), lambda _: {"triton": triton.__version__}
    )
}

if __name__ == "__main__":
    report = machine.main(BENCHMARKS, __doc__)
    fits = all(row["shared KiB"] <= SHARED[report["capability"]] for row in report["rows"])
    sys.exit(0 if fits else 1)
