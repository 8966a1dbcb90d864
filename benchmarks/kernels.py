"""What the compiler makes of the attention kernels, on any machine: no GPU is needed.

    python benchmarks/kernels.py
    python benchmarks/kernels.py --mechanisms dman --features 64 128 --capability 80

Each kernel is compiled as a training step would launch it, and assembled for the GPU. The table has
its instructions (of a warp, loops counted once), the registers of a thread, what it spills of them
to memory, and the shared memory of a program. One that needs more shared memory than the GPU has
cannot be launched: then the exit status is 1.
"""

import argparse
import math
import os
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

os.environ.pop("TRITON_INTERPRET", None)  # compiled, not interpreted

import torch  # noqa: E402
import triton  # noqa: E402
from triton.backends.compiler import GPUTarget  # noqa: E402
from triton.compiler import ASTSource  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

from fairseq_posattn.attention.cases import KERNELS, Sizes  # noqa: E402
from fairseq_posattn.attention.kernels import da, dman, mpsan, mtsa  # noqa: E402, F401 to be compiled

# KiB of shared memory that one program can have.
SHARED = {80: 163, 86: 99, 89: 99, 90: 227, 100: 227, 120: 99}
HEADS = 2


@contextmanager
def recording():
    """Kernels are noted and not launched, on a CPU too: a list of (kernel, arguments, options)."""
    launches = []

    def note(kernel, *args, grid, warmup, **options):
        launches.append((kernel, args, options))

    with patch.object(JITFunction, "run", note), patch.dict(os.environ, TRITON_INTERPRET="1"):
        yield launches


def launches_of(mechanism, dtype, features, length):
    """Every launch of a training step with padding, dropout and, where there is one, causality."""
    case = KERNELS[mechanism]
    arguments = case.arguments(Sizes(1, HEADS, length, length, features), dtype)
    options = {"causal": True} if case.causal else {}
    padding = torch.zeros(1, length, dtype=torch.bool)
    with recording() as launches:
        context = case(arguments, key_padding_mask=padding, dropout_p=0.1, impl="triton", **options)
        context.sum().backward()
    return launches


TYPES = {
    torch.float32: "fp32",
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.bool: "i1",
    torch.int32: "i32",
    torch.int64: "i64",
}


def source_of(kernel, args, options):
    """The launch as Triton's compiler takes it, specialised as Triton does when it launches."""
    signature, constants, attributes = {}, {}, {}
    for number, parameter in enumerate(kernel.params):
        name = parameter.name
        value = args[number] if number < len(args) else options[name]
        constant = parameter.is_constexpr or value is None
        if isinstance(value, int) and value == 1 and not parameter.do_not_specialize:
            constant = True
        if constant:
            signature[name], constants[(number,)] = "constexpr", value
        elif isinstance(value, torch.Tensor):
            signature[name], attributes[(number,)] = "*" + TYPES[value.dtype], ALIGNED
        elif isinstance(value, float):
            signature[name] = "fp32"
        else:
            signature[name] = "i32" if value < 2**31 else "i64"
            if value % 16 == 0 and not parameter.do_not_specialize:
                attributes[(number,)] = ALIGNED
    return ASTSource(kernel, signature, constants, attributes)


ALIGNED = [["tt.divisibility", 16]]


def compile_launch(kernel, args, options, capability):
    """Instructions; registers of a thread, bytes that it spills; KiB of shared memory."""
    launch = {key: options[key] for key in ("num_warps", "num_stages") if key in options}
    target = GPUTarget("cuda", capability, 32)
    compiled = triton.compile(source_of(kernel, args, options), target=target, options=launch)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.ptx"
        path.write_text(compiled.asm["ptx"])
        (gpu,) = re.findall(r"^\.target (sm_\w+)", compiled.asm["ptx"], re.MULTILINE)
        command = ["-v", f"--gpu-name={gpu}", "-o", f"{path}.cubin", str(path)]
        # Triton has an assembler for each generation of GPUs; one of them knows this language.
        for assembler in (Path(triton.__file__).parent / "backends/nvidia/bin").glob("ptxas*"):
            report = subprocess.run([assembler, *command], capture_output=True, text=True)
            if report.returncode == 0:
                break
        binary = [Path(assembler).with_name("nvdisasm"), f"{path}.cubin"]
        lines = subprocess.run(binary, capture_output=True, text=True, check=True).stdout
        instructions = len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/", lines, re.MULTILINE))
    registers = re.search(r"Used (\d+) registers", report.stderr)[1]
    spilled = re.search(r"(\d+) bytes spill stores", report.stderr)[1]
    return instructions, int(registers), int(spilled), math.ceil(compiled.metadata.shared / 1024)


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--mechanisms", nargs="+", choices=KERNELS, default=list(KERNELS))
    parser.add_argument(
        "--dtypes", nargs="+", default=["bfloat16"], choices=["float16", "bfloat16", "float32"]
    )
    parser.add_argument("--features", nargs="+", type=int, default=[64], help="of a head")
    parser.add_argument(
        "--lengths", nargs="+", type=int, default=[32, 512], help="positions of a sentence"
    )
    parser.add_argument(
        "--capability",
        type=int,
        choices=SHARED,
        default=90,
        help="compute capability of the GPU, 90 for an H100 or H200",
    )
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    columns = "mechanism", "kernel", "dtype", "features", "length"
    columns += "warps", "instructions", "registers", "spilled bytes", "shared KiB"
    print(" | ".join(columns))
    fits = True
    for mechanism in arguments.mechanisms:
        for dtype in arguments.dtypes:
            for features in arguments.features:
                for length in arguments.lengths:
                    for kernel, args, options in launches_of(
                        mechanism, getattr(torch, dtype), features, length
                    ):
                        counts = compile_launch(kernel, args, options, arguments.capability)
                        fits = fits and counts[-1] <= SHARED[arguments.capability]
                        row = mechanism, kernel.__name__, dtype, features, length
                        row += options.get("num_warps", 4), *counts
                        print(" | ".join(map(str, row)), flush=True)
    sys.exit(0 if fits else 1)


if __name__ == "__main__":
    main()
