"""Kernel launches and the bytes they move, counted without a GPU.

    python benchmarks/launches.py --sentences 157 --json FILE
    python benchmarks/launches.py attention --json FILE

An operation that computes counts as one launch, the backward pass of a layer norm as two, an
operation on a list of tensors as one per 64 tensors. Bytes are those of operands and results.

- A half-precision update: fairseq's trainer makes it on the CPU in float16, patched to choose as on
  a GPU: the Triton kernels (which do nothing here), PyTorch's fused attention and dropout. Not
  counted: the batch, put together by the host, and dropout of attention weights, which PyTorch's
  fused attention lacks on a CPU.
- attention: a training step of attention functions in bfloat16. Bytes are per pair of positions, of
  tensors that have all pairs, ``[B, H, Tq, Tk]``. Host time is that of Python: nothing is launched.
"""

import collections
import contextlib
import itertools
from unittest.mock import patch

import kernels
import machine
import no_driver
import torch
import torch.nn.functional as F
import training
import translation_pairs as pairs
from fairseq.data.language_pair_dataset import collate
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

from fairseq_posattn.attention import auto, cpu
from fairseq_posattn.attention.cases import CASES, Sizes
from fairseq_posattn.attention.declare import Attention
from fairseq_posattn.attention.kernels import support
from fairseq_posattn.attention.kernels.launch import Launch
from fairseq_posattn.model import transformer_layer
from fairseq_posattn.training.criterions import fused_cross_entropy as fused_loss

GROUPS = {
    "matmuls": ("mm", "addmm", "bmm"),
    "gradients of biases": ("sum",),
    "copies": ("copy_", "_foreach_copy_", "clone", "_to_copy", "cat"),
    "sums with norms": ("add_and_normalize", "differentiate_sums", "reduce_vectors"),
    "layer norms": ("native_layer_norm", "native_layer_norm_backward"),
    "dropout": ("native_dropout", "native_dropout_backward"),
    "sums": ("add",),
    "activations": ("relu", "threshold_backward"),
    "attention": (
        *("kernel", "_scaled_dot_product_flash_attention_for_cpu", "_softmax"),
        *("_scaled_dot_product_flash_attention_for_cpu_backward", "_softmax_backward_data"),
    ),
    "masks": (
        *("bitwise_not", "bitwise_and", "bitwise_or", "scalar_tensor", "where", "all"),
        *("masked_fill", "masked_fill_", "flip", "arange", "lt"),
    ),
}
GROUP_OF = {name: group for group, names in GROUPS.items() for name in names}
NO_LAUNCH = ("empty", "detach", "view", "promote_types", "_local_scalar", "profiler")
HALF = "--fp16 --attention-dropout 0"
OTHERS = "others"
MECHANISMS = ("dman", "da", "mtsa", "mpsan")
SIZES = Sizes(2, 2, 128, 128, 16)
PAIRS = 2 * 2 * 128 * 128


class Counter(TorchDispatchMode):
    """Counts of launches and bytes by group of operations.

    Only tensors with ``smallest`` elements count as bytes; expanded dimensions count once.
    """

    def __init__(self, smallest=0):
        super().__init__()
        self.launches, self.bytes = collections.Counter(), collections.Counter()
        self.smallest = smallest

    def add(self, name, values):
        group = GROUP_OF.get(name, OTHERS)
        tensors = [value for value in tree_leaves(values) if torch.is_tensor(value)]
        size = len(tensors) // 2 if name.startswith("_foreach") else 1
        self.launches[group] += -(-size // 64) + (name == "native_layer_norm_backward")
        self.bytes[group] += sum(
            min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
            for tensor in tensors
            if tensor.numel() >= self.smallest
        )

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if not function.is_view and not any(part in str(function) for part in NO_LAUNCH):
            self.add(function.overloadpacket.__name__, (result, args, kwargs))
        return result


def as_on_a_gpu(counter):
    """Return patches under which code that depends on the device chooses as on a GPU."""

    def choose(self, call, arguments):
        able = self.implementations
        return next(name for name in able if self._refusal(name, call, arguments) is None)

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


def count(flags, stock, name, words, sample):
    counter = Counter()
    with contextlib.ExitStack() as patches:
        for change in as_on_a_gpu(counter):
            patches.enter_context(change)
        contestant = training.Contestant(name, f"{flags} {HALF}", stock)
        trainer = training.build_trainer(contestant, name, words, "cpu")
        trainer.train_step([sample])  # creates what later updates reuse
        counter.launches.clear()
        counter.bytes.clear()
        with counter:
            trainer.train_step([sample])
    return counter


def measure(name, words, shape, arguments):
    rows = training.sentences(words, shape)
    sample = collate(rows, words.pad(), words.eos(), left_pad_source=True)
    ours = count(training.FUSED_LOSS, False, name, words, sample)
    stock = count(f"{training.OLD_ADAM} {training.LOSS}", True, name, words, sample)
    for group in (*GROUPS, OTHERS):
        yield {
            "group": group,
            **training.both("launches", (ours.launches[group], stock.launches[group])),
            **training.both("bytes", (ours.bytes[group], stock.bytes[group])),
        }


def tables(report):
    """Return the Markdown of the counts of updates: launches and bytes by group, and in all."""
    keys = ("launches", "stock_launches", "bytes", "stock_bytes")
    total = {key: sum(row[key] for row in report["rows"]) for key in keys}
    rows = [
        {
            "operations": row["group"],
            "launches": f"{row['launches']:,}",
            "fairseq's launches": f"{row['stock_launches']:,}",
            "MB": f"{row['bytes'] / 1e6:,.0f}",
            "fairseq's MB": f"{row['stock_bytes'] / 1e6:,.0f}",
        }
        for row in [*report["rows"], {"group": "all", **total}]
    ]
    return {"": machine.table(rows)}


@contextlib.contextmanager
def counted(row, which):
    """Add to ``row`` the launches and bytes per pair of a pass."""
    with kernels.recording(compiling=False) as launches, Counter(PAIRS) as counter:
        yield
    row[which] = counter.launches.total() + len(launches)
    row[f"bytes {which}"] = round(counter.bytes.total() / PAIRS)


def measure_attention(arguments):
    """Yield launches, bytes per pair and host time of each mechanism and implementation."""
    no_driver.install()
    for name, impl in itertools.product(MECHANISMS, ("reference", "triton")):
        inputs = CASES[name].arguments(SIZES, torch.bfloat16)
        row = {"mechanism": name, "implementation": impl}
        with kernels.recording(compiling=False):
            CASES[name](inputs, impl=impl)  # masks are prepared once
        with counted(row, "forward"):
            context = CASES[name](inputs, impl=impl)
        gradient = torch.ones_like(context)
        with counted(row, "backward"):
            context.backward(gradient)
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

    (seconds,) = machine.take_turns(name, [steps], 60, 2, "cpu")
    return round(1000 * machine.milliseconds(seconds, 6) / 50)


def describe(arguments):
    return {"device": machine.processor(), "torch": torch.__version__}


OPTIONS = {"device": ("cpu", "device", ["cpu"]), "dtype": ("float16", "precision", ["float16"])}
TABLES = machine.one_table(lambda row, report: row)
BENCHMARKS = {
    "": pairs.benchmark(measure, tables, OPTIONS, pairs=["dman_iwslt_de_en"]),
    "attention": machine.Benchmark({}, measure_attention, TABLES, describe=describe),
}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
