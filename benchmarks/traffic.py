"""Launches and memory traffic of a training step of attention functions, counted without a GPU.

    python benchmarks/traffic.py [--json FILE]

An operation that computes counts as one launch (on a GPU it is one or a few), a kernel as one.
Bytes are those of operands and results that have all pairs of positions, ``[B, H, Tq, Tk]``, per
pair. Everything is bfloat16, parameters too.
"""

import kernels
import machine
import no_driver
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairseq_posattn.attention.cases import CASES, Sizes

BATCH, HEADS, LENGTH, FEATURES = 2, 2, 128, 16
PAIRS = BATCH * HEADS * LENGTH * LENGTH
H200 = 4.8e12  # bytes/s of memory, by the vendor's data sheet
MECHANISMS = ("dman", "da", "mtsa", "mpsan")


class Counter(TorchDispatchMode):
    """Counts of operations and of bytes in tensors of all pairs."""

    def __init__(self):
        super().__init__()
        self.operations = self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not (function.is_view or "empty" in str(function) or "detach" in str(function)):
            self.operations += 1
            tensors = tensors_in((result, args, kwargs))
            self.bytes += sum(bytes_of(tensor) for tensor in tensors if tensor.numel() >= PAIRS)
        return result


def tensors_in(values):
    """Return the tensors in nested arguments or results."""
    return [value for value in tree_leaves(values) if torch.is_tensor(value)]


def bytes_of(tensor):
    """Return the bytes of a tensor's distinct elements; expanded dimensions count once."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


def count(name, impl):
    """Return launches and bytes per pair, forward and then backward."""
    case = CASES[name]
    arguments = case.arguments(Sizes(BATCH, HEADS, LENGTH, LENGTH, FEATURES), torch.bfloat16)
    counts = []
    with kernels.recording(compiling=False) as launches:
        with Counter() as counter:
            context = case(arguments, impl=impl)
        counts += [counter.operations + len(launches), round(counter.bytes / PAIRS)]
        launches.clear()
        gradient = torch.ones_like(context)
        with Counter() as counter:
            context.backward(gradient)
        counts += [counter.operations + len(launches), round(counter.bytes / PAIRS)]
    return counts


def tables(report):
    """Return the report's Markdown, with the least time that DMAN's reference takes on an H200."""
    text = machine.table(report["rows"])
    for row in report["rows"]:
        if (row["mechanism"], row["implementation"]) == ("dman", "reference"):
            pair = (row["bytes forward"] + row["bytes backward"]) / H200
            text += (
                f"\n\nThese bytes alone take at least {pair * 1e12:.0f} ps a pair on an H200 "
                f"({H200 / 1e12:.1f} TB/s by its data sheet): a training step of DMAN's reference "
                f"takes at least {1000 * pair * 32 * 8192**2:.0f} ms for one sentence of 8192 "
                "tokens and 32 heads."
            )
    return {"": text}


def measure(arguments):
    """Yield a row for each mechanism and implementation."""
    no_driver.install()
    columns = ("forward", "bytes forward", "backward", "bytes backward")
    for name in MECHANISMS:
        for impl in ("reference", "triton"):
            counts = dict(zip(columns, count(name, impl), strict=True))
            yield {"mechanism": name, "implementation": impl, **counts}


BENCHMARKS = {
    "": machine.Benchmark({}, measure, tables, describe=lambda _: {"torch": torch.__version__})
}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
