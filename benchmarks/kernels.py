"""Instructions, registers and shared memory of the compiled attention kernels, without a GPU.

    python benchmarks/kernels.py
    python benchmarks/kernels.py --mechanisms dman --features 64 128 --capability 80

Each kernel is compiled as for a training step and assembled for the GPU. The table has the number
of its instructions (per warp, each counted once); those of its largest loop; instructions per
thread and pair of positions in that loop, and how many are special functions; registers of a
thread; spilling instructions of the loop; and shared memory of a program. The exit status is 1 if a
kernel needs more shared memory than the GPU has.
"""

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

# KiB of shared memory that one program can have.
SHARED = {80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
HEADS = 2
OPTIONS = ("padding", "dropout", "causal")
COLUMNS = (
    *("mechanism", "dtype", "features", "length", "kernel", "warps", "instructions", "in the loop"),
    *("a pair", "special", "registers", "spills", "shared KiB"),
)
ASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


@contextmanager
def recording(compiling=True):
    """Yield a list that collects (kernel, compiled, keyword arguments) instead of launching."""
    launches = []
    run = JITFunction.run

    def note(kernel, *args, grid, warmup, **options):
        compiled = None
        if compiling:
            compiled = run(kernel, *args, grid=grid, warmup=warmup, **options)
        launches.append((kernel, compiled, options))
        return compiled

    with patch.object(JITFunction, "run", note):
        yield launches


def training_step(mechanism, dtype, features, length, chosen=OPTIONS):
    """Run a training step with these options, as far as the mechanism has them."""
    case = KERNELS[mechanism]
    arguments = case.arguments(Sizes(1, HEADS, length, length, features), dtype)
    options = {
        "padding": {"key_padding_mask": torch.zeros(1, length, dtype=torch.bool)},
        "dropout": {"dropout_p": 0.1},
        "causal": {"causal": True} if case.attention.causal else {},
    }
    given = {key: value for name in chosen for key, value in options[name].items()}
    case(arguments, impl="triton", **given).sum().backward()


def counts(compiled, options):
    """Return a compiled kernel's columns, from ``warps`` on."""
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "kernel.cubin"
        binary.write_bytes(compiled.asm["cubin"])
        code = _output(ASSEMBLER / "nvdisasm", binary)
        usage = _output(ASSEMBLER / "cuobjdump", "-res-usage", binary)
    instructions, loop = largest_loop(code.splitlines())
    warps, shared = compiled.metadata.num_warps, compiled.metadata.shared
    rows = options.get("BLOCK_Q", options.get("BLOCK"))
    pairs = rows * options.get("BLOCK_K", options.get("BLOCK")) if rows else None
    special = sum("MUFU" in line for line in loop)
    return {
        "warps": warps,
        "instructions": instructions,
        "in the loop": len(loop),
        "a pair": round(len(loop) * warps * 32 / pairs, 1) if pairs and loop else None,
        "special": round(special * warps * 32 / pairs, 1) if pairs and loop else None,
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


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument("--mechanisms", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument(
        "--dtypes", nargs="+", default=["bfloat16"], choices=["float16", "bfloat16", "float32"]
    )
    parser.add_argument("--features", nargs="+", type=int, default=[64], help="of a head")
    parser.add_argument(
        "--lengths", nargs="+", type=int, default=[32, 512], help="positions of a sentence"
    )
    parser.add_argument(
        "--options", nargs="*", choices=OPTIONS, default=list(OPTIONS), help="of the calls"
    )
    parser.add_argument(
        "--capability",
        type=int,
        choices=SHARED,
        default=90,
        help="compute capability of the GPU, 90 for an H100 or H200",
    )
    return parser.parse_args()


def compile_all(arguments):
    """Yield a row for each kernel."""
    for mechanism in arguments.mechanisms:
        for dtype in arguments.dtypes:
            for features in arguments.features:
                for length in arguments.lengths:
                    with recording() as launches:
                        sizes = getattr(torch, dtype), features, length
                        training_step(mechanism, *sizes, arguments.options)
                    for kernel, compiled, options in launches:
                        row = {"mechanism": mechanism, "dtype": dtype, "features": features}
                        row |= {"length": length, "kernel": kernel.__name__}
                        yield row | counts(compiled, options)


def tables(report):
    """Return the report's Markdown."""
    shared = "dtype", "length"
    rows = [{k: v for k, v in row.items() if k not in shared} for row in report["kernels"]]
    return {"": machine.table(rows)}


def main():
    """Compile the kernels; exit with 1 if one needs too much shared memory."""
    arguments = parse_arguments()
    no_driver.install(arguments.capability)
    rows = []
    for row in compile_all(arguments):
        rows.append(row)
        print(" | ".join(str(row[column]) for column in COLUMNS), file=sys.stderr, flush=True)
    report = {"triton": triton.__version__, "capability": arguments.capability, "kernels": rows}
    machine.finish("kernels", report, arguments.json, tables)
    sys.exit(0 if all(row["shared KiB"] <= SHARED[arguments.capability] for row in rows) else 1)


if __name__ == "__main__":
    main()
