"""Time per training update of the classifiers beside transformer_classifier of the same width.

    python benchmarks/classification.py
    python benchmarks/classification.py --archs mpsan_classifier mtsa_classifier --length 20
    python benchmarks/classification.py --archs mpsan_classifier --dropout 0

All models take turns, update by update, on the same random sentences: what disturbs the machine
disturbs all. An update is the forward pass, the cross-entropy, the backward pass and a step of
Adam. The word vectors are trained too, unless --freeze-embeddings, which leaves out what all models
have in common.
"""

import logging
import statistics
from functools import partial
from types import SimpleNamespace

import machine
import torch
import translation_pairs as pairs

from fairseq_posattn.training.presets import CLASSIFIERS as ARCHITECTURES

CLASSES = 5
# transformer_classifier at the widths of the architectures. Its feed-forward sublayer is four times
# as wide, as in Vaswani et al. (2017).
HEADS = {256: 16, 300: 10, 512: 8, 600: 8}
# FastText of ten features and 100M parameters, and HAN, which takes documents apart.
TIMED = [arch for arch in ARCHITECTURES if arch not in ("fasttext_classifier", "han_classifier")]
TRANSFORMERS = {
    f"transformer {width}": [
        "transformer_classifier",
        f"--encoder-hidden-dim={width}",
        f"--encoder-attention-heads={heads}",
        f"--encoder-ffn-embed-dim={4 * width}",
    ]
    for width, heads in HEADS.items()
}


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument(
        "--archs",
        nargs="+",
        choices=TIMED,
        default=TIMED,
        metavar="ARCH",
        help=f"architectures to time, of {', '.join(TIMED)}",
    )
    parser.add_argument("--sentences", type=int, default=32, help="sentences in a batch")
    parser.add_argument("--length", type=int, default=50, help="words in the longest sentence")
    parser.add_argument("--vocabulary", type=int, default=10000, help="words in the dictionary")
    parser.add_argument("--freeze-embeddings", action="store_true", help="do not train the words")
    parser.add_argument("--dropout", type=float, help="of all models, in place of each one's own")
    parser.add_argument("--updates", type=int, default=11, help="counted updates of each model")
    parser.add_argument("--warmup", type=int, default=2, help="updates before those")
    machine.add_device(parser)
    return parser.parse_args()


class Contestant:
    """A model with its optimizer, trained on one batch."""

    def __init__(self, name, flags, words, arguments):
        self.name = name
        task = ["--task", "sentence_prediction", "--num-classes", str(CLASSES)]
        flags = [*task, "--criterion", "sentence_prediction", "--arch", *flags]
        if arguments.freeze_embeddings:
            flags.append("--freeze-embeddings")
        if arguments.dropout is not None:
            flags.append(f"--dropout={arguments.dropout}")
        model = pairs.build_model(flags, SimpleNamespace(source_dictionary=words))
        model.register_classification_head("head", CLASSES)
        self.model = model.to(arguments.device, getattr(torch, arguments.dtype)).train()
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(trained, lr=1e-5, eps=1e-4)

    @property
    def width(self):
        """Features of the encoder's output."""
        return self.model.encoder.words.encoder.output_dim

    @property
    def parameters(self):
        """All but those of the words."""
        embeddings = self.model.encoder.embed_tokens.weight.numel()
        return sum(parameter.numel() for parameter in self.model.parameters()) - embeddings

    def update(self, batch):
        """One update, and the seconds that it took."""
        start = machine.now(batch.device)
        output = self.model(batch.tokens, classification_head_name="head")[0]
        loss = torch.nn.functional.cross_entropy(output.float(), batch.target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return machine.now(batch.device) - start


def random_batch(words, arguments):
    """Sentences of half the longest length or more, padded on the right, as fairseq does."""
    generator = torch.Generator().manual_seed(1)
    count, longest = arguments.sentences, arguments.length
    lengths = torch.randint(longest // 2, longest + 1, (count,), generator=generator)
    lengths[0] = longest
    tokens = torch.randint(words.nspecial, len(words), (count, longest + 1), generator=generator)
    tokens[torch.arange(longest + 1) > lengths[:, None]] = words.pad()
    tokens[torch.arange(count), lengths] = words.eos()
    target = torch.randint(CLASSES, (count,), generator=generator)
    device = arguments.device
    return SimpleNamespace(tokens=tokens.to(device), target=target.to(device), device=device)


def time_all(arguments):
    """Let the architectures and the Transformers of their widths take turns; a row for each."""
    words = pairs.dictionary(arguments.vocabulary)
    batch = random_batch(words, arguments)
    ours = [Contestant(arch, [arch], words, arguments) for arch in arguments.archs]
    widths = {f"transformer {contestant.width}" for contestant in ours}
    theirs = [
        Contestant(name, flags, words, arguments)
        for name, flags in TRANSFORMERS.items()
        if name in widths
    ]
    contestants = {contestant.name: contestant for contestant in (*theirs, *ours)}
    turns = [partial(contestant.update, batch) for contestant in contestants.values()]
    measured = machine.take_turns("", turns, arguments.updates, arguments.warmup, "round")
    seconds = dict(zip(contestants, measured, strict=True))
    return [
        {
            "name": name,
            "width": contestant.width,
            "parameters": contestant.parameters,
            "milliseconds": round(1000 * statistics.median(seconds[name]), 1),
            **machine.compare(seconds[name], seconds[f"transformer {contestant.width}"]),
        }
        for name, contestant in contestants.items()
    ]


def main():
    arguments = parse_arguments()
    logging.disable(logging.INFO)
    torch.manual_seed(1)
    settings = ("sentences", "length", "vocabulary", "freeze_embeddings", "dropout", "updates")
    report = {
        **machine.describe(arguments.device, arguments.dtype),
        **{name: getattr(arguments, name) for name in settings},
        "models": time_all(arguments),
    }
    print(
        "{device}, {threads} threads, {dtype}, torch {torch}: {sentences} sentences of up to "
        "{length} words; medians of {updates} updates".format(**report)
    )
    print(f"{'':27} width  parameters     ms  times transformer_classifier of that width")
    for row in report["models"]:
        print(
            "{name:27} {width:5} {parameters:11,} {milliseconds:6.1f}  {time_ratio:5.2f} "
            "({time_ratio_lowest:.2f} to {time_ratio_highest:.2f})".format(**row)
        )
    machine.keep(report, arguments.json)


if __name__ == "__main__":
    main()
