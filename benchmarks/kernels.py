"""Instructions, registers and shared memory of the compiled attention kernels, without a GPU.

    python benchmarks/kernels.py --mechanisms dman --features 64 128 --capability 80

Kernels are compiled as for a training step and assembled. Columns: instructions per thread and pair
of positions in the largest loop (of a warp, each counted once), the special functions among them,
registers of a thread, spilling instructions of the loop, and shared memory of a program. The exit
status is 1 if a kernel needs more shared memory than the GPU has.
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
CAPTURED = {"capture_output": True, "text": True, "check": True}
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
        norm = torch.nn.LayerNorm(8 * features, dtype=dtype)
        x, output = torch.ones(2, length, 1, 8 * features, dtype=dtype, requires_grad=True)
        streams = DropoutStreams()
        total, normalized = Sum(streams, x, output, norm.bias, 0.1).normalize(norm)
        (total + dropped_relu(streams, normalized, 0.1)).sum().backward()
        return
    case = KERNELS[mechanism]
    arguments = case.arguments(Sizes(1, HEADS, length, length, features), dtype)
    padding = {"key_padding_mask": torch.zeros(1, length, dtype=torch.bool)}
    options = {"padding": padding, "dropout": {"dropout_p": 0.1}}
    options["causal"] = {"causal": True} if case.attention.causal else {}
    keywords = {key: value for name in chosen for key, value in options[name].items()}
    case(arguments, impl="triton", **keywords).sum().backward()


def counts(compiled, options):
    """Return a compiled kernel's columns, from ``warps`` on."""
    with tempfile.NamedTemporaryFile() as binary:
        binary.write(compiled.asm["cubin"])
        binary.flush()
        commands = ["nvdisasm"], ["cuobjdump", "-res-usage"]
        code, usage = (
            subprocess.run([ASSEMBLER / name, *flags, binary.name], **CAPTURED).stdout
            for name, *flags in commands
        )
    instructions, loop = largest_loop(code.splitlines())
    warps, block = compiled.metadata.num_warps, options.get("BLOCK", 0)
    pairs = options.get("BLOCK_Q", block) * options.get("BLOCK_K", block)
    per_pair = warps * 32 / pairs if pairs and loop else None
    return {
        **{"warps": warps, "instructions": instructions, "in the loop": len(loop)},
        "a pair": per_pair and round(len(loop) * per_pair, 1),
        "special": per_pair and round(sum("MUFU" in line for line in loop) * per_pair, 1),
        "registers": int(re.search(r"REG:(\d+)", usage)[1]),
        "spills": sum(bool(re.search(r"\b(STL|LDL)\b", line)) for line in loop),
        "shared KiB": -(-compiled.metadata.shared // 1024),
    }


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
            training_step(mechanism, getattr(torch, dtype), features, length, arguments.options)
        row = {"mechanism": mechanism, "dtype": dtype, "features": features, "length": length}
        for kernel, compiled, options in launches:
            yield {**row, "kernel": kernel.__name__, **counts(compiled, options)}


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


def describe(arguments):
    return {"triton": triton.__version__}


OPTIONS = {
    "mechanisms": (list(KERNELS), "mechanisms", [*KERNELS, LAYER]),
    "dtypes": (["bfloat16"], "precisions", machine.DEVICE["dtype"][-1]),
    "features": ([64], "features per head"),
    "lengths": ([32, 512], "positions of a sentence"),
    "options": (CALLED_WITH, "options of the calls", CALLED_WITH),
    "capability": (90, "compute capability of the GPU, 90 for an H100 or H200", SHARED),
}

BENCHMARKS = {"": machine.Benchmark(OPTIONS, measure, table, ("capability",), describe)}

if __name__ == "__main__":
    report = machine.main(BENCHMARKS, __doc__)
    fits = all(row["shared KiB"] <= SHARED[report["capability"]] for row in report["rows"])
    sys.exit(0 if fits else 1)
