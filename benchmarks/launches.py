"""Kernel launches of a half-precision update on a GPU and the bytes they move, without a GPU.

    python benchmarks/launches.py --sentences 157 --json FILE

fairseq's trainer makes an update on the CPU in float16, patched to choose as on a GPU: the Triton
kernels (which do nothing here), PyTorch's fused attention and dropout. An operation that computes
counts as one launch, the backward pass of a layer norm as two, one on a list of tensors as one per
64 tensors. Bytes are those of operands and results. Not counted: the batch, put together by the
host, and dropout of attention weights, which PyTorch's fused attention lacks on a CPU.
"""

import collections
import contextlib
from unittest.mock import patch

import machine
import torch
import torch.nn.functional as F
import traffic
import training
import translation_pairs as pairs
from fairseq.data.language_pair_dataset import collate
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from fairseq_posattn.attention import auto, cpu
from fairseq_posattn.attention.declare import Attention
from fairseq_posattn.attention.kernels import support
from fairseq_posattn.attention.kernels.launch import Launch
from fairseq_posattn.training.criterions import fused_cross_entropy as fused_loss

GROUPS = {
    "matmuls": ("mm", "addmm", "bmm"),
    "gradients of biases": ("sum",),
    "copies": ("copy_", "_foreach_copy_", "clone", "_to_copy", "cat"),
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


class Counter(TorchDispatchMode):
    """Counts of launches and bytes by group of operations."""

    def __init__(self):
        super().__init__()
        self.launches, self.bytes = collections.Counter(), collections.Counter()

    def add(self, name, values):
        group = GROUP_OF.get(name, OTHERS)
        tensors = traffic.tensors_in(values)
        together = len(tensors) // 2 if name.startswith("_foreach") else 1
        self.launches[group] += -(-together // 64) + (name == "native_layer_norm_backward")
        self.bytes[group] += sum(map(traffic.bytes_of, tensors))

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
        counter.add("kernel", args)

    def zeros_like(tensor):  # kernels that do nothing must not leave NaN
        with _disable_current_modes():
            return torch.zeros_like(tensor)

    return (
        patch.object(Attention, "_choose", choose),
        patch.object(support, "interpreted", lambda: True),
        patch.object(auto, "self_check_reason", lambda *call: None),
        patch.object(cpu, "uses_byte_masks", lambda x, p: False),
        patch.object(cpu, "_by_onednn", lambda x, weight: False),
        patch.object(F, "dropout", drop),
        patch.object(Launch, "__call__", launch),
        patch.object(torch, "empty_like", zeros_like),
        patch.object(torch.cuda, "current_device", lambda: None),
        patch.dict(fused_loss.CHUNK_SIZES, cpu=fused_loss.CHUNK_SIZES["cuda"]),
    )


def count(flags, stock, name, words, sample):
    """Return the counts of an update, and the model."""
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
    return counter, trainer.model


def saved_by_norms(model, shape):
    """Return what fused kernels of residual sum, dropout and the next layer norm would save.

    Where norms precede their sublayers, all but a layer's first follow a sum of that layer. Forward
    and backward pass have 7 launches and would have 4 (with that of a seed). They read and write 18
    tensors of all tokens' features (dropout's bytes count half) and would do so with 9.
    """
    places = words = 0
    for side, length in ((model.encoder, "source_length"), (model.decoder, "target_length")):
        within = sum(part.normalize_before for layer in side.layers for part in layer.sublayers[1:])
        places += within
        words += within * shape["sentences"] * shape[length]
    features = model.encoder.layers[0].sublayers[0].layer_norm.normalized_shape[0]
    return {
        "places": places,
        "launches": (7 - 4) * places,
        "bytes": (18 - 9) * words * features * 2,
    }


def measure(name, words, shape, arguments):
    """Yield the counts of a pair."""
    rows = training.sentences(words, shape)
    sample = collate(rows, words.pad(), words.eos(), left_pad_source=True)
    ours, model = count(training.FUSED_LOSS, False, name, words, sample)
    stock, _ = count(f"{training.OLD_ADAM} {training.LOSS}", True, name, words, sample)
    groups = [
        {
            "group": group,
            "launches": ours.launches[group],
            "stock_launches": stock.launches[group],
            "bytes": ours.bytes[group],
            "stock_bytes": stock.bytes[group],
        }
        for group in (*GROUPS, OTHERS)
    ]
    yield {"groups": groups, "norms": saved_by_norms(model, shape)}


def tables(report):
    """Return the report's Markdown: launches by group, and what fused norms would save."""
    rows, norms = [], []
    for pair in report["rows"]:
        keys = "launches", "stock_launches", "bytes", "stock_bytes"
        total = {key: sum(group[key] for group in pair["groups"]) for key in keys}
        for group in [*pair["groups"], {"group": "all", **total}]:
            row = {"operations": group["group"], "launches": f"{group['launches']:,}"}
            row["fairseq's launches"] = f"{group['stock_launches']:,}"
            row["MB"] = f"{group['bytes'] / 1e6:,.0f}"
            row["fairseq's MB"] = f"{group['stock_bytes'] / 1e6:,.0f}"
            rows.append(row)
        saved = pair["norms"]
        norms.append(
            f"Fused kernels for the {saved['places']} norms of `{pair['arch']}` that follow a sum "
            f"of their layer would save {saved['launches']} of {total['launches']:,} launches "
            f"({saved['launches'] / total['launches']:.0%}) and {saved['bytes'] / 1e6:,.0f} of "
            f"{total['bytes'] / 1e6:,.0f} MB ({saved['bytes'] / total['bytes']:.0%})."
        )
    return {"": machine.table(rows), "norms": "\n\n".join(norms)}


BENCHMARKS = {
    "": pairs.benchmark(
        measure,
        tables,
        {"device": ("cpu", "device", ["cpu"]), "dtype": ("float16", "precision", ["float16"])},
        pairs=["dman_iwslt_de_en"],
    )
}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
