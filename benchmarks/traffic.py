"""What a training step of the attention functions launches and moves, counted on any machine.

    python benchmarks/traffic.py [--json FILE]

An operation counts where it computes something: on a GPU it is a launch, or a few; a kernel is one.
Bytes are those of the operands and results of operations on tensors of all pairs,
``[B, H, Tq, Tk]``, for each pair: what goes through device memory beyond what the length alone
decides. In bfloat16, parameters too.
"""

import kernels
import machine
import no_driver
import torch
from tabulate import tabulate
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairseq_posattn.attention.cases import CASES, Sizes

BATCH, HEADS, LENGTH, FEATURES = 2, 2, 128, 16
PAIRS = BATCH * HEADS * LENGTH * LENGTH


class Counter(TorchDispatchMode):
    """Operations that compute, and the bytes of their operands and results of all pairs."""

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
    """Of an operation's arguments or results, however they are nested."""
    return [value for value in tree_leaves(values) if torch.is_tensor(value)]


def bytes_of(tensor):
    """Of the elements that are there at all: an expanded dimension is read from a cache."""
    return min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())


MECHANISMS = ("dman", "da", "mtsa", "mpsan")


def count(name, impl):
    """Operations and bytes for each pair, forward and backward."""
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


def main():
    parser = machine.make_parser(__doc__)
    arguments = parser.parse_args()
    no_driver.install()
    columns = (
        "mechanism",
        "implementation",
        "forward",
        "bytes forward",
        "backward",
        "bytes backward",
    )
    rows = [
        dict(zip(columns, [name, impl, *count(name, impl)], strict=True))
        for name in MECHANISMS
        for impl in ("reference", "triton")
    ]
    print(tabulate(rows, headers="keys", tablefmt="github"))
    machine.keep({"torch": torch.__version__, "rows": rows}, arguments.json)


if __name__ == "__main__":
    main()
