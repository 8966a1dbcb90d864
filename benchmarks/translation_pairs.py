"""The plugin's translation models, each with a stock fairseq model of as many parameters."""

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import machine
import torch

warnings.filterwarnings("ignore")

from fairseq import models, options  # noqa: E402
from fairseq.data import Dictionary  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402

import fairseq_posattn  # noqa: E402, F401, registers


@dataclass
class Pair:
    """A stock architecture with the flags that give it the parameters and settings of ours.

    Attributes:
        stock, flags: the stock architecture and its flags.
        words: size of the joint dictionary.
        sentences, source_length, target_length: sizes of a batch.
    """

    stock: str
    flags: str
    words: int
    sentences: int
    source_length: int
    target_length: int


def _size(features, ffn, heads):
    return " ".join(
        f"--{side}-embed-dim {features} --{side}-ffn-embed-dim {ffn} "
        f"--{side}-attention-heads {heads}"
        for side in ("encoder", "decoder")
    )


EMBEDDINGS = "--share-all-embeddings"
DROPOUTS = "--attention-dropout 0.1 --activation-dropout 0.1"
NORMS_BEFORE = "--encoder-normalize-before --decoder-normalize-before"
BIG = f"--dropout 0.3 {NORMS_BEFORE} {_size(1024, 4096, 16)}"
SUMMARIES = (
    "--dropout 0.1 --layernorm-embedding --activation-fn gelu --encoder-learned-pos "
    "--decoder-learned-pos --max-source-positions 512 --max-target-positions 512 "
    f"{_size(768, 3072, 12)}"
)
PAIRS = {
    "dman_iwslt_de_en": Pair(
        "transformer_iwslt_de_en", f"--dropout 0.3 {NORMS_BEFORE}", 10152, 32, 26, 26
    ),
    "dman_wmt_en_de": Pair("transformer", f"--dropout 0.1 {NORMS_BEFORE}", 37000, 16, 30, 30),
    "dman_wmt_en_de_big": Pair("transformer", BIG, 37000, 16, 30, 30),
    "dman_summarization": Pair("transformer", SUMMARIES, 32000, 2, 512, 64),
}


def add_arguments(parser, rounds: int = 0, warmup: int = 0, dtype=True, unit="updates"):
    """Add the options of measurements of pairs; ``unit`` names their rounds, if there are any."""
    parser.add_argument(
        "--pairs", nargs="+", choices=PAIRS, default=list(PAIRS), help="architectures to measure"
    )
    sizes = "(default: the pair's)"
    parser.add_argument("--sentences", type=int, help=f"sentences in a batch {sizes}")
    parser.add_argument("--source-length", type=int, help=f"tokens of the longest source {sizes}")
    parser.add_argument("--target-length", type=int, help=f"tokens of the longest target {sizes}")
    machine.add_device(parser, dtype)
    if not rounds:
        return
    parser.add_argument(f"--{unit}", type=int, default=rounds, help=f"counted {unit}, each model")
    parser.add_argument("--warmup", type=int, default=warmup, help=f"{unit} before those")


def dictionary(size: int) -> Dictionary:
    """Return a dictionary of this size."""
    words = Dictionary()
    for word in range(size - words.nspecial):
        words.add_symbol(f"word{word}")
    return words


def build_model(flags: list[str], task):
    """Return a model built as by fairseq-train."""
    args = options.parse_args_and_arch(options.get_training_parser(), ["data", *flags])
    return models.build_model(convert_namespace_to_omegaconf(args).model, task)


def build(arch: str, flags: str, words: Dictionary, device: str, dtype: str):
    """Return a translation model, initialized from seed 1."""
    torch.manual_seed(1)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    model = build_model(["--arch", arch, *flags.split()], task)
    return model.to(device, getattr(torch, dtype))


def command(name: str, stock: bool) -> tuple[str, str]:
    """Return architecture and flags of our model, or of the stock one."""
    if not stock:
        return name, EMBEDDINGS
    return PAIRS[name].stock, f"{EMBEDDINGS} {DROPOUTS} {PAIRS[name].flags}"


def build_pair(name: str, words: Dictionary, arguments) -> list:
    """Return our model and the stock one."""
    precision = (words, arguments.device, arguments.dtype)
    return [build(*command(name, stock), *precision) for stock in (False, True)]


def build_plain(name: str, stock, words: Dictionary, arguments):
    """Return the stock model as one of the plugin: ``san`` sublayers with the same weights."""
    flags = f"{EMBEDDINGS} --encoder-sublayers san,ffn --decoder-sublayers san,cross,ffn"
    sizes = [
        f"--{side}-{size} {getattr(getattr(stock.cfg, side), size.replace('-', '_'))}"
        for side in ("encoder", "decoder")
        for size in ("embed-dim", "ffn-embed-dim", "attention-heads", "layers")
    ]
    flags = " ".join([flags, *sizes, PAIRS[name].flags])
    plain = build("posattn_transformer", flags, words, arguments.device, arguments.dtype)
    weights = stock.state_dict()
    plain.load_state_dict({name: rename(name, weights) for name in plain.state_dict()})
    return plain


def rename(name: str, weights: dict) -> torch.Tensor:
    """Return the stock model's weight for the parameter of a ``san`` model with this name."""
    if ".sublayers." not in name:
        return weights[name]
    layer, rest = name.split(".sublayers.")
    place, part = rest.split(".", 1)
    parts = ["self_attn", *(["encoder_attn"] if layer.startswith("decoder") else []), "final"]
    part_of = parts[int(place)]
    if part.startswith("layer_norm"):
        return weights[f"{layer}.{part_of}_{part}"]
    part = part.removeprefix("sublayer.")
    if part_of == "final":
        return weights[f"{layer}.{part}"]
    projection, kind = part.split(".")
    letters = {"qkv_proj": "qkv", "query_proj": "q", "kv_proj": "kv"}.get(projection)
    if letters is None:
        return weights[f"{layer}.{part_of}.{part}"]
    return torch.cat([weights[f"{layer}.{part_of}.{letter}_proj.{kind}"] for letter in letters])


def batch_shape(name: str, arguments) -> dict:
    """Return the sizes of a batch: those of the options, else the pair's."""
    sizes = ("sentences", "source_length", "target_length")
    return {size: getattr(arguments, size) or getattr(PAIRS[name], size) for size in sizes}


def random_sentences(words: Dictionary, count: int, longest: int, generator: torch.Generator):
    """Return ``[count, longest]`` tokens, padded on the right, and their lengths."""
    lengths = torch.randint(longest // 2, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    tokens = torch.randint(words.nspecial, len(words), (count, longest), generator=generator)
    tokens[torch.arange(longest) >= lengths[:, None]] = words.pad()
    return tokens, lengths


def random_batch(words: Dictionary, shape: dict, device: str):
    """Return random sentences; sources are padded on the left, as in fairseq."""
    generator = torch.Generator().manual_seed(1)
    (source, source_lengths), (target, target_lengths) = (
        random_sentences(words, shape["sentences"], shape[f"{side}_length"], generator)
        for side in ("source", "target")
    )
    start = torch.full((len(target), 1), words.eos())
    tensors = {
        "source": source.flip(-1),
        "lengths": source_lengths,
        "target": target,
        "previous": torch.cat([start, target[:, :-1]], dim=1),
    }
    tensors = {name: tensor.to(device) for name, tensor in tensors.items()}
    return SimpleNamespace(**tensors, words=int(source_lengths.sum() + target_lengths.sum()))


def parameters(model) -> int:
    """Return the number of parameters."""
    return sum(parameter.numel() for parameter in model.parameters())


def run(benchmark: str, arguments, measure: Callable, tables: Callable) -> None:
    """Measure the pairs of ``--pairs`` and write the report.

    Args:
        benchmark: name of the program.
        arguments: the options.
        measure: returns the measurements of a pair, from its name, words, shape and the options.
        tables: returns the Markdown of a report, see :func:`machine.finish`.
    """
    logging.disable(logging.INFO)
    report = machine.describe(arguments.device, getattr(arguments, "dtype", "float32"))
    report["pairs"] = []
    for name in arguments.pairs:
        words, shape = dictionary(PAIRS[name].words), batch_shape(name, arguments)
        row = {"arch": name, "stock": PAIRS[name].stock, **shape}
        report["pairs"].append(row | measure(name, words, shape, arguments))
    machine.finish(benchmark, report, arguments.json, tables)


def describe(pair: dict, report: dict) -> dict:
    """Return the first columns of a table of pairs."""
    library = {"onednn": "oneDNN", "torch": "MKL"}[report["linear"]]
    return {
        "pair": f"`{pair['arch']}`, `{pair['stock']}`",
        "sentences x source, target": "{sentences} x {source_length}, {target_length}".format(
            **pair
        ),
        "device": machine.name_of_device(report),
        "matmul": "int8" if pair.get("int8") else library,
    }
