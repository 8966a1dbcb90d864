"""Kernel launches and the bytes they move, counted without a GPU.

    python benchmarks/launches.py --sentences 157 --json FILE
    python benchmarks/launches.py attention --json FILE

An operation that computes is one launch, the backward pass of a layer norm two, an operation on a
list one per 64 tensors. Bytes are those of operands and results. A half-precision update is made by
fairseq's trainer on the CPU, patched to choose as on a GPU: Triton kernels (which do nothing here),
PyTorch's fused attention and dropout. Neither the host's preparation of the batch nor dropout of
attention weights is counted.

attention: a training step of attention functions in bfloat16. Bytes are per pair of positions, of
tensors that have all pairs, ``[B, H, Tq, Tk]``. Host time is that of Python: nothing is launched.
"""

import collections
import contextlib
import itertools
from functools import partial
from unittest.mock import patch

import kernels
import machine
import no_driver
import torch
import torch.nn.functional as F
import training
import translation_pairs as pairs
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from fairseq_posattn.attention import auto, cpu
from fairseq_posattn.attention.cases import CASES, Sizes
from fairseq_posattn.attention.declare import Attention
from fairseq_posattn.attention.kernels import support
from fairseq_posattn.attention.kernels.launch import Launch
from fairseq_posattn.model import transformer_layer
from fairseq_posattn.training.criterions import fused_cross_entropy as fused_loss

FLASH = "_scaled_dot_product_flash_attention_for_cpu"
GROUPS = {
    "matmuls": ("mm", "addmm", "bmm"),
    "gradients of biases": ("sum",),
    "copies": ("copy_", "_foreach_copy_", "clone", "_to_copy", "cat"),
    "sums with norms": ("add_and_normalize", "differentiate_sums", "reduce_vectors"),
    "layer norms": ("native_layer_norm", "native_layer_norm_backward"),
    "dropout": ("native_dropout", "native_dropout_backward"),
    "sums": ("add",),
    "activations": ("relu", "threshold_backward"),
    "attention": ("kernel", FLASH, f"{FLASH}_backward", "_softmax", "_softmax_backward_data"),
    "masks": (
        *("bitwise_not", "bitwise_and", "bitwise_or", "scalar_tensor", "where", "all"),
        *("masked_fill", "masked_fill_", "flip", "arange", "lt"),
    ),
}
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
NO_LAUNCH = ("empty", "detach", "view", "promote_types", "_local_scalar", "profiler")
HALF, OTHERS = "--fp16 --attention-dropout 0", "others"
MECHANISMS = ("dman", "da", "mtsa", "mpsan")
SIZES, PAIRS = Sizes(2, 2, 128, 128, 16), 2 * 2 * 128 * 128


class Counter(TorchDispatchMode):
    """Launches and bytes, of tensors with ``smallest`` elements, by group of operations."""

    def __init__(self, smallest=0):
        super().__init__()
        self.launches, self.bytes = collections.Counter(), collections.Counter()
        self.smallest = smallest

    def add(self, name, values):
        group = GROUP_OF.get(name, OTHERS)
        tensors = [value for value in tree_leaves(values) if torch.is_tensor(value)]
        size = len(tensors) // 2 if name.startswith("_foreach") else 1
        self.launches[group] += -(-size // 64) + (name == "native_layer_norm_backward")
        for tensor in tensors:
            if tensor.numel() >= self.smallest:  # expanded dimensions count once
                whole = tensor.untyped_storage().nbytes()
                self.bytes[group] += min(tensor.numel() * tensor.element_size(), whole)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not function.is_view and not any(part in str(function) for part in NO_LAUNCH):
            self.add(function.overloadpacket.__name__, (result, args, kwargs))
        return result


def as_on_a_gpu(counter):
    """Return patches under which code that depends on the device chooses as on a GPU."""

    def choose(self, call, arguments):
        return next(n for n in self.implementations if not self._refusal(n, call, arguments))

    def drop(x, p=0.5, training=True, inplace=False):
        return torch.native_dropout(x, p, True)[0] if training and p else x

    def launch(self, *args):
        name = self.kernel.__name__
        counter.add(name if name in GROUP_OF else "kernel", args)

    def zeroed(allocate):  # kernels that do nothing must not leave NaN
        def call(*args, **options):
            with _disable_current_modes():
                return allocate(*args, **options).zero_()

        return call

    return (
        patch.object(Attention, "_choose", choose),
        patch.object(support, "interpreted", lambda: True),
        patch.object(auto, "self_check_reason", lambda *call: None),
        patch.object(transformer_layer, "uses_kernels", lambda *call: True),
        patch.object(cpu, "uses_byte_masks", lambda x, p: False),
        patch.object(cpu, "_by_onednn", lambda x, weight: False),
        patch.object(F, "dropout", drop),
        patch.object(Launch, "__call__", launch),
        patch.object(torch, "empty_like", zeroed(torch.empty_like)),
        patch.object(torch.Tensor, "new_empty", zeroed(torch.Tensor.new_empty)),
        patch.object(torch.Tensor, "new_empty_strided", zeroed(torch.Tensor.new_empty_strided)),
        patch.object(torch.cuda, "current_device", lambda: None),
        patch.dict(fused_loss.CHUNK_SIZES, cpu=fused_loss.CHUNK_SIZES["cuda"]),
    )


def measure(name, words, shape, arguments):
    sample, counters = training.sample_of(words, shape), []
    for flags in (training.FUSED_LOSS, f"{training.OLD_ADAM} {training.LOSS}"):
        counters.append(counter := Counter())
        with contextlib.ExitStack() as patches:
            for change in as_on_a_gpu(counter):
                patches.enter_context(change)
            stock = len(counters) == 2
            trainer = training.build_trainer(f"{flags} {HALF}", stock, name, words, "cpu")
            trainer.train_step([sample])  # creates what later updates reuse
            counter.launches.clear()
            counter.bytes.clear()
            with counter:
                trainer.train_step([sample])
    for group in (*GROUPS, OTHERS):
        launches = training.both("launches", [counter.launches[group] for counter in counters])
        moved = training.both("bytes", [counter.bytes[group] for counter in counters])
        yield {"group": group, **launches, **moved}


def tables(report):
    """Return the Markdown of the counts of updates: launches and bytes by group, and in all."""
    columns = {"launches": ("launches", 1), "fairseq's launches": ("stock_launches", 1)}
    columns |= {"MB": ("bytes", 1e6), "fairseq's MB": ("stock_bytes", 1e6)}
    totals = {key: sum(row[key] for row in report["rows"]) for key, _ in columns.values()}
    rows = [
        {"operations": row["group"]}
        | {name: f"{row[key] / unit:,.0f}" for name, (key, unit) in columns.items()}
        for row in [*report["rows"], {"group": "all", **totals}]
    ]
    return {"": machine.table(rows)}


def measure_attention(arguments):
    """Yield launches, bytes per pair and host time of each mechanism and implementation."""
    no_driver.install()
    for name, impl in itertools.product(MECHANISMS, ("reference", "triton")):
        inputs = CASES[name].arguments(SIZES, torch.bfloat16)
        row = {"mechanism": name, "implementation": impl}
        steps = {"forward": partial(CASES[name], inputs, impl=impl)}
        with kernels.recording(compiling=False):
            context = steps["forward"]()  # masks are prepared once
        steps["backward"] = partial(context.backward, torch.ones_like(context))
        for which, step in steps.items():
            with kernels.recording(compiling=False) as launches, Counter(PAIRS) as counter:
                step()
            row[which] = counter.launches.total() + len(launches)
            row[f"bytes {which}"] = round(counter.bytes.total() / PAIRS)
        yield row | ({"host, us": host_microseconds(name)} if impl == "triton" else {})


def host_microseconds(name):
    """Return the host time of a step without the driver's part of launches."""
    inputs = CASES[name].arguments(Sizes(8, 4, 26, 26, 64), torch.float16)
    leaves = [leaf for leaf in inputs.values() if torch.is_tensor(leaf) and leaf.requires_grad]
    options = {"key_padding_mask": torch.zeros(8, 26, dtype=torch.bool), "dropout_p": 0.1}

    def steps():
        for _ in range(50):
            context = CASES[name](inputs, impl="triton", **options)
            torch.autograd.grad(context, leaves, inputs["value"].detach())

    seconds = machine.take_turns(name, {"": steps}, 60, 2, "cpu")[""]
    return round(1000 * machine.milliseconds(seconds, 6) / 50)


OPTIONS = {"device": ("cpu", "device", ["cpu"]), "dtype": ("float16", "precision", ["float16"])}
TABLES = machine.one_table(lambda row, report: row)
BENCHMARKS = {
    "": pairs.benchmark(measure, tables, OPTIONS, pairs=["dman_iwslt_de_en"]),
    "attention": machine.Benchmark({}, measure_attention, TABLES),
}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
