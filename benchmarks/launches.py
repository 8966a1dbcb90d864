"""What an update of half precision launches on a GPU, and what that moves, counted without one.

    python benchmarks/launches.py --sentences 157 --json FILE

fairseq's trainer makes an update on the CPU in float16, told to take what it would on a GPU:
kernels, which do nothing here, PyTorch's fused attention and dropout. An operation that computes is
a launch, the backward pass of a layer norm two, one on many tensors one for 64 of them.
Bytes are those of its operands and results. Left out are the batch, which the host puts together,
and dropout of attention weights, which PyTorch's fused attention lacks on a CPU.
"""

import collections
import contextlib
from unittest.mock import patch

import machine
import switches
import torch
import torch.nn.functional as F
import traffic
import translation_pairs as pairs
import update
from fairseq.data.language_pair_dataset import collate
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from fairseq_posattn.attention import declare
from fairseq_posattn.attention.cpu import dropout, linear
from fairseq_posattn.attention.declare import Attention
from fairseq_posattn.attention.kernels import support
from fairseq_posattn.attention.kernels.launch import Launch
from fairseq_posattn.training.criterions import label_smoothed_cross_entropy_fused as fused_loss

GROUPS = {
    "products of matrices": ("mm", "addmm", "bmm"),
    "gradients of their biases": ("sum",),
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
    """Launches and bytes by group."""

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
    """Patches: what chooses by the device takes what it would take on a GPU."""

    def choose(self, call, arguments):
        able = self.implementations
        return next(name for name in able if self._refusal(name, call, arguments) is None)

    def drop(x, p=0.5, training=True, inplace=False):
        return torch.native_dropout(x, p, True)[0] if training and p else x

    def launch(self, *args):
        counter.add("kernel", args)

    def zeros_like(tensor):  # what kernels do not fill must be numbers
        with _disable_current_modes():
            return torch.zeros_like(tensor)

    return (
        patch.object(Attention, "_choose", choose),
        patch.object(support, "interpreted", lambda: True),
        patch.object(declare, "self_check_reason", lambda *call: None),
        patch.object(dropout, "uses_byte_masks", lambda x, p: False),
        patch.object(linear, "_by_onednn", lambda x, weight: False),
        patch.object(F, "dropout", drop),
        patch.object(Launch, "__call__", launch),
        patch.object(torch, "empty_like", zeros_like),
        patch.object(torch.cuda, "current_device", lambda: None),
        patch.dict(fused_loss.AT_ONCE, cpu=fused_loss.AT_ONCE["cuda"]),
    )


def count(flags, stock, name, words, sample):
    """What an update launches and moves, and the model."""
    counter = Counter()
    with contextlib.ExitStack() as patches:
        for change in as_on_a_gpu(counter):
            patches.enter_context(change)
        contestant = switches.Contestant(name, f"{flags} {HALF}", stock)
        trainer = switches.build(contestant, name, words, "cpu")
        trainer.train_step([sample])  # which makes what later ones find
        counter.launches.clear()
        counter.bytes.clear()
        with counter:
            trainer.train_step([sample])
    return counter, trainer.model


def saved_by_norms(model, shape):
    """What kernels of residual sum, dropout and the norm that follows would save.

    Where norms stand before their sublayers, those of a layer but the first follow a sum of it.
    Both passes of sum, dropout and norm launch 7 and would launch 4, a seed's with them. Of tensors
    of all words' features, dropout's bytes counting half, they read and write 18 and would do so
    with 9.
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


def count_pair(name, arguments):
    words = pairs.dictionary(pairs.PAIRS[name].words)
    shape = pairs.batch_shape(name, arguments)
    rows = update.sentences(pairs.random_batch(words, shape, "cpu"), words)
    sample = collate(rows, words.pad(), words.eos(), left_pad_source=True)
    ours, model = count(switches.FUSED_LOSS, False, name, words, sample)
    stock, _ = count(f"{switches.OLD_ADAM} {switches.LOSS}", True, name, words, sample)
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
    told = ", ".join("{group} {launches} ({stock_launches})".format(**group) for group in groups)
    return {
        "arch": name,
        "stock": pairs.PAIRS[name].stock,
        **shape,
        "groups": groups,
        "norms": saved_by_norms(model, shape),
        "told": f"{sum(ours.launches.values())} ({sum(stock.launches.values())}): {told}",
    }


def parse_arguments():
    parser = machine.make_parser(__doc__)
    pairs.add_arguments(parser, dtype=False)
    parser.set_defaults(pairs=["dman_iwslt_de_en"], dtype="float16")
    return parser.parse_args()


if __name__ == "__main__":
    pairs.run(parse_arguments(), count_pair, "launches of {arch} ({stock}) {told}")
