"""The plugin's translation models, each with a stock fairseq model of as many parameters.

What :mod:`training` and :mod:`decoding` share: the pairs, random sentences for them, and timing in
which the two models of a pair take turns, so that what disturbs the machine disturbs both.
"""

import logging
import warnings
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

    ``sentences``, ``source_length`` and ``target_length`` are those of a batch, ``words`` the size
    of the joint dictionary.
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
PAIRS = {
    "dman_iwslt_de_en": Pair(
        "transformer_iwslt_de_en", f"--dropout 0.3 {NORMS_BEFORE}", 10152, 32, 26, 26
    ),
    "dman_wmt_en_de": Pair("transformer", f"--dropout 0.1 {NORMS_BEFORE}", 37000, 16, 30, 30),
    "dman_wmt_en_de_big": Pair(
        "transformer",
        f"--dropout 0.3 {NORMS_BEFORE} " + _size(1024, 4096, 16),
        37000,
        16,
        30,
        30,
    ),
    "dman_summarization": Pair(
        "transformer",
        "--dropout 0.1 --layernorm-embedding --activation-fn gelu "
        "--max-source-positions 512 --max-target-positions 512 "
        + _size(768, 3072, 12)
        + " --encoder-learned-pos --decoder-learned-pos",
        32000,
        2,
        512,
        64,
    ),
}


def add_arguments(parser, dtype=True):
    """The options that all measurements of pairs have; ``dtype`` only where one is chosen."""
    parser.add_argument(
        "--pairs", nargs="+", choices=PAIRS, default=list(PAIRS), help="architectures to time"
    )
    sizes = "(default: the pair's own)"
    parser.add_argument("--sentences", type=int, help=f"sentences in a batch {sizes}")
    parser.add_argument("--source-length", type=int, help=f"words of the longest source {sizes}")
    parser.add_argument("--target-length", type=int, help=f"words of the longest target {sizes}")
    machine.add_device(parser, dtype)


def dictionary(size: int) -> Dictionary:
    words = Dictionary()
    for word in range(size - words.nspecial):
        words.add_symbol(f"word{word}")
    return words


def build_model(flags: list[str], task):
    """A model as fairseq-train builds it."""
    args = options.parse_args_and_arch(options.get_training_parser(), ["data", *flags])
    return models.build_model(convert_namespace_to_omegaconf(args).model, task)


def build(arch: str, flags: str, words: Dictionary, device: str, dtype: str):
    """A translation model, with weights from one seed."""
    torch.manual_seed(1)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    model = build_model(["--arch", arch, *flags.split()], task)
    return model.to(device, getattr(torch, dtype))


def command(name: str, stock: bool) -> tuple[str, str]:
    """Architecture and flags of our model, or of the stock one."""
    if not stock:
        return name, EMBEDDINGS
    return PAIRS[name].stock, f"{EMBEDDINGS} {DROPOUTS} {PAIRS[name].flags}"


def build_pair(name: str, words: Dictionary, arguments) -> list:
    """Our model and the stock one."""
    precision = (words, arguments.device, arguments.dtype)
    return [build(*command(name, stock), *precision) for stock in (False, True)]


def batch_shape(name: str, arguments) -> dict:
    """The sizes of a pair's batch: what the user asked for, else its own."""
    sizes = ("sentences", "source_length", "target_length")
    return {size: getattr(arguments, size) or getattr(PAIRS[name], size) for size in sizes}


def random_sentences(words: Dictionary, count: int, longest: int, generator: torch.Generator):
    """``[count, longest]``, half as long or more, padded on the right; and their lengths."""
    lengths = torch.randint(longest // 2, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    tokens = torch.randint(words.nspecial, len(words), (count, longest), generator=generator)
    tokens[torch.arange(longest) >= lengths[:, None]] = words.pad()
    return tokens, lengths


def random_batch(words: Dictionary, shape: dict, device: str):
    """Random sentences; sources are padded left, as fairseq does."""
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
    return sum(parameter.numel() for parameter in model.parameters())


def run(arguments, time_pair, line: str):
    """Time the pairs that are asked for, print ``line`` of each and write all to ``--json``."""
    logging.disable(logging.INFO)
    report = machine.describe(arguments.device, getattr(arguments, "dtype", "float32"))
    report["pairs"] = [time_pair(name, arguments) for name in arguments.pairs]
    print("{device}, {threads} threads, {dtype}, torch {torch}".format(**report))
    for pair in report["pairs"]:
        print(line.format(**pair))
    machine.keep(report, arguments.json)
