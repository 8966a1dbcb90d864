"""The plugin's translation models, each with a stock fairseq model of as many parameters."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace

import machine
import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")

from fairseq import models, options  # noqa: E402
from fairseq.data import Dictionary  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402

from fairseq_posattn.training.plugin import register  # noqa: E402

register()


@dataclass
class Pair:
    """A stock architecture with the flags that give it the parameters and settings of ours."""

    stock: str
    flags: str
    words: int  # size of the joint dictionary
    sentences: int  # sizes of a batch
    source_length: int
    target_length: int


def size_flags(**sizes: int) -> str:
    """Return the flags of sizes of both encoder and decoder, such as ``embed_dim``."""
    return " ".join(
        f"--{side}-{name.replace('_', '-')} {size}"
        for side in ("encoder", "decoder")
        for name, size in sizes.items()
    )


EMBEDDINGS = "--share-all-embeddings"
DROPOUTS = "--attention-dropout 0.1 --activation-dropout 0.1"
NORMS_BEFORE = "--encoder-normalize-before --decoder-normalize-before"
BIG_SIZES = size_flags(embed_dim=1024, ffn_embed_dim=4096, attention_heads=16)
SUMMARIES = (
    "--dropout 0.1 --layernorm-embedding --activation-fn gelu --encoder-learned-pos "
    "--decoder-learned-pos --max-source-positions 512 --max-target-positions 512 "
    f"{size_flags(embed_dim=768, ffn_embed_dim=3072, attention_heads=12)}"
)
DROPOUT_1, DROPOUT_3 = f"--dropout 0.1 {NORMS_BEFORE}", f"--dropout 0.3 {NORMS_BEFORE}"
PAIRS = {
    "dman_iwslt_de_en": Pair("transformer_iwslt_de_en", DROPOUT_3, 10152, 32, 26, 26),
    "dman_wmt_en_de": Pair("transformer", DROPOUT_1, 37000, 16, 30, 30),
    "dman_wmt_en_de_big": Pair("transformer", f"{DROPOUT_3} {BIG_SIZES}", 37000, 16, 30, 30),
    "dman_summarization": Pair("transformer", SUMMARIES, 32000, 2, 512, 64),
}
SIZES = ("sentences", "source_length", "target_length")
BATCH = {size: (int, f"{size.replace('_', ' ')} of a batch (default: pair's)") for size in SIZES}


def benchmark(
    measure: Callable, tables: Callable, options: dict[str, tuple], pairs: Iterable[str] = PAIRS
) -> machine.Benchmark:
    """Return a benchmark of pairs; ``options`` are those beyond pairs and batches.

    ``measure`` yields the rows of a pair, from its name, dictionary, sizes of a batch and options.
    """

    def measure_pairs(arguments):
        for name in arguments.pairs:
            words, shape = dictionary(PAIRS[name].words), batch_shape(name, arguments)
            for row in measure(name, words, shape, arguments):
                yield {"arch": name, "stock": PAIRS[name].stock, **shape, **row}

    chosen = {"pairs": (list(pairs), "architectures to measure", list(PAIRS))}
    return machine.Benchmark({**chosen, **BATCH, **options}, measure_pairs, tables)


def rounds(count: int, warmup: int, unit: str = "updates") -> dict[str, tuple]:
    return {unit: (count, f"counted {unit}"), "warmup": (warmup, f"{unit} before those")}


def dictionary(size: int) -> Dictionary:
    words = Dictionary()
    for word in range(size - words.nspecial):
        words.add_symbol(f"word{word}")
    return words


def build_model(flags: list[str], task):
    args = options.parse_args_and_arch(options.get_training_parser(), ["data", *flags])
    return models.build_model(convert_namespace_to_omegaconf(args).model, task)


def build(arch: str, flags: str, words: Dictionary, device: str, dtype: str):
    """Return a translation model, initialized from seed 1."""
    torch.manual_seed(1)
    task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
    return build_model(["--arch", arch, *flags.split()], task).to(device, getattr(torch, dtype))


def command(name: str, stock: bool) -> tuple[str, str]:
    """Return architecture and flags of our model, or of the stock model."""
    flags = f"{EMBEDDINGS} {DROPOUTS} {PAIRS[name].flags}"
    return (PAIRS[name].stock, flags) if stock else (name, EMBEDDINGS)


def build_pair(name: str, words: Dictionary, arguments) -> list:
    precision = (words, arguments.device, arguments.dtype)
    return [build(*command(name, stock), *precision) for stock in (False, True)]


def batch_shape(name: str, arguments) -> dict:
    """Return the sizes of a batch: those of the options, else the pair's."""
    return {size: getattr(arguments, size) or getattr(PAIRS[name], size) for size in SIZES}


def random_sentences(words: Dictionary, count: int, longest: int, generator: torch.Generator):
    """Return ``[count, longest]`` tokens, padded on the right, and their lengths."""
    lengths = torch.randint(longest // 2, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    tokens = torch.randint(words.nspecial, len(words), (count, longest), generator=generator)
    tokens[torch.arange(longest) >= lengths[:, None]] = words.pad()
    return tokens, lengths


def random_batch(words: Dictionary, shape: dict, device: str):
    """Return random sentences; sources are padded on the left, as in fairseq."""
    generator, count = torch.Generator().manual_seed(1), shape["sentences"]
    source, lengths = random_sentences(words, count, shape["source_length"], generator)
    target, _ = random_sentences(words, count, shape["target_length"], generator)
    previous = torch.cat([torch.full((count, 1), words.eos()), target[:, :-1]], dim=1)
    tensors = {"source": source.flip(-1), "lengths": lengths}
    tensors |= {"target": target, "previous": previous}
    return SimpleNamespace(**{name: tensor.to(device) for name, tensor in tensors.items()})


def loss_of(model, batch, padding: int) -> torch.Tensor:
    """Return the label-smoothed loss from float32 logits, as fairseq computes it."""
    logits = model(batch.source, batch.lengths, batch.previous)[0].flatten(0, 1).float()
    target = batch.target.flatten()
    return F.cross_entropy(logits, target, ignore_index=padding, label_smoothing=0.1)


def trainer(model, loss_of: Callable) -> Callable[[], None]:
    """Return a function that makes one update; ``loss_of`` takes the model."""
    optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-5, eps=1e-4)

    def update():
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()

    return update


def parameters(model) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def first_cells(pair: dict, report: dict) -> dict:
    library = {"onednn": "oneDNN", "torch": "MKL"}[report["linear"]]
    return {
        "pair": "`{arch}`, `{stock}`".format(**pair),
        "sentences x source, target": "{sentences} x {source_length}, {target_length}".format(
            **pair
        ),
        **{"device": report["device"], "matmul": "int8" if pair.get("int8") else library},
    }
