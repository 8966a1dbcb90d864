"""Time per training update of the plugin's models beside fairseq's own, in one run.

    python benchmarks/training.py
    python benchmarks/training.py --pairs dman_wmt_en_de --length 64 --device cuda --dtype bfloat16

Each pair has equally many layers and, to within a percent or so, parameters. The two take turns,
update by update, on the same random sentences: what disturbs the machine disturbs both. An update
is the forward pass, the label-smoothed loss, the backward pass and a step of Adam.
"""

import argparse
import json
import logging
import platform
import statistics
import time
import warnings
from types import SimpleNamespace

import torch
from tqdm import tqdm

warnings.filterwarnings("ignore")

from fairseq import models, options  # noqa: E402
from fairseq.data import Dictionary  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402

import fairseq_posattn  # noqa: E402, F401, registers

# The plugin's architecture, the stock one of as many parameters beside it, with the flags that give
# it the same training settings, and the size of the joint dictionary.
SHARED = "--share-all-embeddings --attention-dropout 0.1 --activation-dropout 0.1"
PRE_NORM = "--encoder-normalize-before --decoder-normalize-before"
PAIRS = {
    "dman_iwslt_de_en": ("transformer_iwslt_de_en", f"{PRE_NORM} --dropout 0.3", 10152),
    "dman_wmt_en_de": ("transformer", f"{PRE_NORM} --dropout 0.1", 37000),
}


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--pairs", nargs="+", choices=PAIRS, default=list(PAIRS), help="architectures to time"
    )
    parser.add_argument("--sentences", type=int, default=32, help="sentence pairs in a batch")
    parser.add_argument("--length", type=int, default=26, help="words in the longest sentence")
    parser.add_argument("--updates", type=int, default=15, help="counted updates of each model")
    parser.add_argument("--warmup", type=int, default=3, help="updates before those")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--dtype", choices=["float32", "float16", "bfloat16"], default="float32", help="precision"
    )
    parser.add_argument("--json", metavar="FILE", help="also write the results here")
    return parser.parse_args()


def dictionary(size):
    words = Dictionary()
    for word in range(size - words.nspecial):
        words.add_symbol(f"word{word}")
    return words


class Contestant:
    """A model with its optimizer, trained on one batch."""

    def __init__(self, arch, flags, words, arguments):
        self.arch = arch
        parser = options.get_training_parser()
        args = options.parse_args_and_arch(parser, ["data", "--arch", arch, *flags.split()])
        cfg = convert_namespace_to_omegaconf(args)
        task = SimpleNamespace(source_dictionary=words, target_dictionary=words)
        dtype = getattr(torch, arguments.dtype)
        self.model = models.build_model(cfg.model, task).to(arguments.device, dtype).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-5, eps=1e-4)
        self.seconds = []

    @property
    def parameters(self):
        return sum(parameter.numel() for parameter in self.model.parameters())

    def update(self, batch):
        """One update, and the seconds that it took."""
        synchronise(batch.source)
        start = time.perf_counter()
        output = self.model(batch.source, batch.lengths, batch.previous)[0]
        loss = torch.nn.functional.cross_entropy(
            output.flatten(0, 1).float(),
            batch.target.flatten(),
            ignore_index=batch.padding,
            label_smoothing=0.1,
        )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        synchronise(batch.source)
        return time.perf_counter() - start


def synchronise(tensor):
    if tensor.is_cuda:
        torch.cuda.synchronize()


def random_batch(words, arguments):
    """Sentences of half the longest length or more; sources are padded left, as fairseq does."""
    generator = torch.Generator().manual_seed(1)
    shape = (arguments.sentences, arguments.length)
    lengths = torch.randint(shape[1] // 2, shape[1] + 1, shape[:1], generator=generator)
    lengths[0] = shape[1]
    position = torch.arange(shape[1])
    target = torch.randint(words.nspecial, len(words), shape, generator=generator)
    target[position >= lengths[:, None]] = words.pad()
    source = target.flip(-1)
    previous = torch.cat([torch.full((shape[0], 1), words.eos()), target[:, :-1]], dim=1)
    tensors = {"source": source, "target": target, "previous": previous, "lengths": lengths}
    tensors = {name: tensor.to(arguments.device) for name, tensor in tensors.items()}
    return SimpleNamespace(**tensors, padding=words.pad(), words=2 * int(lengths.sum()))


def time_pair(name, arguments):
    """Let the two models of a pair take turns; the figures of both and their ratio."""
    stock, stock_flags, size = PAIRS[name]
    words = dictionary(size)
    batch = random_batch(words, arguments)
    ours = Contestant(name, "", words, arguments)
    theirs = Contestant(stock, f"{SHARED} {stock_flags}", words, arguments)
    for number in tqdm(range(arguments.warmup + arguments.updates), desc=name, unit="update"):
        for contestant in (ours, theirs):
            seconds = contestant.update(batch)
            if number >= arguments.warmup:
                contestant.seconds.append(seconds)
    ratios = [a / b for a, b in zip(ours.seconds, theirs.seconds, strict=True)]
    return {
        "arch": name,
        "stock": stock,
        "parameters": ours.parameters,
        "stock_parameters": theirs.parameters,
        "words_per_second": round(batch.words / statistics.median(ours.seconds)),
        "stock_words_per_second": round(batch.words / statistics.median(theirs.seconds)),
        "time_ratio": round(statistics.median(ratios), 3),
        "time_ratio_lowest": round(min(ratios), 3),
        "time_ratio_highest": round(max(ratios), 3),
    }


def processor():
    """The name of the processor, where the system tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            names = {line.split(":")[1].strip() for line in file if line.startswith("model name")}
        return ", ".join(sorted(names)) or platform.processor()
    except OSError:
        return platform.processor()


def main():
    arguments = parse_arguments()
    logging.disable(logging.INFO)
    torch.manual_seed(1)
    report = {
        "device": torch.cuda.get_device_name() if arguments.device == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "dtype": arguments.dtype,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "sentences": arguments.sentences,
        "length": arguments.length,
        "updates": arguments.updates,
        "pairs": [time_pair(name, arguments) for name in arguments.pairs],
    }
    print(
        "{device}, {threads} threads, {dtype}, torch {torch}: "
        "{sentences} sentences of up to {length} words".format(**report)
    )
    for pair in report["pairs"]:
        print(
            "{arch} ({parameters:,} parameters, {words_per_second:,} words/s) against "
            "{stock} ({stock_parameters:,}, {stock_words_per_second:,}): "
            "time per update x {time_ratio:.2f} (median of {updates}; {time_ratio_lowest:.2f} to "
            "{time_ratio_highest:.2f})".format(**pair, updates=arguments.updates)
        )
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(report, file, indent=2)
            file.write("\n")


if __name__ == "__main__":
    main()
