"""Time per training update of taggers and recommenders beside a Transformer of the same layers.

    python benchmarks/roles_and_news.py
    python benchmarks/roles_and_news.py --archs mtsa_tagger da_transformer_recommender

The plain Transformer is the same model with fairseq's own layers in the place of ours. All models
take turns, update by update, on the same random data: what disturbs the machine disturbs all. An
update is the forward pass, the cross-entropy, the backward pass and a step of Adam; the
architectures have their published sizes, with --encoder-layers of the taggers as it is given here.
On a CPU its time is what the processor spent on it, whatever else it had to do.
"""

import logging
import statistics
from functools import partial
from types import SimpleNamespace

import machine
import torch
import translation_pairs as pairs
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch.nn import functional as F

from fairseq_posattn.training import presets

PLAIN = {"tagger": "transformer_tagger", "recommender": "transformer_recommender"}
ARCHS = [*presets.TAGGERS, *presets.RECOMMENDERS]
TAGS = 100
NEGATIVES = 4


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument(
        "--archs",
        nargs="+",
        choices=ARCHS,
        default=ARCHS,
        metavar="ARCH",
        help=f"architectures to time, of {', '.join(ARCHS)}",
    )
    parser.add_argument("--layers", type=int, default=4, help="of the taggers")
    parser.add_argument("--sentences", type=int, default=16, help="to tag, in a batch")
    parser.add_argument("--length", type=int, default=40, help="words in the longest of these")
    parser.add_argument("--clicks", type=int, default=4, help="to learn from, in a batch")
    parser.add_argument("--history", type=int, default=10, help="clicks of the busiest user")
    parser.add_argument("--title", type=int, default=12, help="words in the longest title")
    parser.add_argument("--vocabulary", type=int, default=2000, help="words in the dictionary")
    parser.add_argument("--updates", type=int, default=11, help="counted updates of each model")
    parser.add_argument("--warmup", type=int, default=2, help="updates before those")
    machine.add_device(parser, dtype=False)
    return parser.parse_args()


# --- Models --------------------------------------------------------------------------------------


class Contestant:
    """A model with its optimizer, trained on one batch.

    Args:
        name: an architecture's, or ``plain tagger``, ``plain recommender``.
    """

    def __init__(self, name, words, arguments):
        self.name = name
        self.kind = name.rpartition("_" if "_" in name else " ")[2]
        arch = PLAIN[self.kind] if name.startswith("plain ") else name
        self.model = build(arch, self.kind, words, arguments)
        if name.startswith("plain "):
            for stack in [module for module in self.model.modules() if hasattr(module, "layers")]:
                stack.layers = torch.nn.ModuleList(map(fairseqs_layer, stack.layers))
        self.model = self.model.to(arguments.device).train()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-5)

    @property
    def parameters(self):
        """All but those of the words."""
        embeddings = self.model.embed_tokens.weight.numel()
        return sum(parameter.numel() for parameter in self.model.parameters()) - embeddings

    def update(self, batch, device):
        """One update, and the seconds that it took."""
        inputs, target = batch
        start = machine.now(device)
        output = self.model(**inputs)
        scores = output[0].flatten(0, 1) if self.kind == "tagger" else output
        loss = F.cross_entropy(scores, target.flatten(), ignore_index=-1)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return machine.now(device) - start


def build(arch, kind, words, arguments):
    flags = ["--task", {"tagger": "sequence_tagging"}.get(kind, "news_recommendation")]
    flags += ["--criterion", flags[-1], "--arch", arch]
    if kind == "tagger":
        flags += ["--encoder-layers", str(arguments.layers)]
    task = SimpleNamespace(
        source_dictionary=words,
        tag_names=[f"B-{number}" for number in range(TAGS)],
        max_positions=lambda: 256,
        titles=None,
        cfg=SimpleNamespace(title_length=arguments.title, max_history=arguments.history),
    )
    return pairs.build_model(flags, task)


def fairseqs_layer(layer):
    """A layer of fairseq's with the sizes and dropouts of one of ours."""
    sublayers = {type(part.sublayer).__name__: part for part in layer.sublayers}
    attention = sublayers["MultiheadSelfAttention"]
    feed_forward = sublayers["FeedForward"].sublayer
    cfg = TransformerConfig()
    cfg.encoder.embed_dim = feed_forward.fc1.in_features
    cfg.encoder.ffn_embed_dim = feed_forward.fc1.out_features
    cfg.encoder.attention_heads = attention.sublayer.num_heads
    cfg.dropout = attention.dropout.p
    cfg.attention_dropout = attention.sublayer.mechanism.dropout
    cfg.activation_dropout = feed_forward.dropout.p
    return TransformerEncoderLayerBase(cfg)


# --- Data ----------------------------------------------------------------------------------------


def random_batches(words, arguments):
    """``(inputs, target)`` for either kind of model."""
    generator = torch.Generator().manual_seed(1)
    shape = arguments.sentences, arguments.length
    tokens, _ = pairs.random_sentences(words, *shape, generator)
    tags = torch.randint(TAGS, shape, generator=generator)
    tags[tokens == words.pad()] = -1
    predicate = F.one_hot(torch.zeros(shape[0], dtype=torch.long), shape[1])
    shown = 1 + NEGATIVES
    count = arguments.clicks * (arguments.history + shown)  # no title is there twice
    titles, _ = pairs.random_sentences(words, 1 + count, arguments.title, generator)
    titles[0] = words.pad()
    rows = torch.arange(1, 1 + count).view(arguments.clicks, -1)
    lengths = torch.randint(1, arguments.history + 1, (arguments.clicks, 1), generator=generator)
    history = rows[:, shown:].masked_fill(torch.arange(arguments.history) >= lengths, 0)
    batches = {
        "tagger": ({"src_tokens": tokens, "predicate": predicate}, tags),
        "recommender": (
            {"titles": titles, "history": history, "candidates": rows[:, :shown]},
            torch.zeros(arguments.clicks, dtype=torch.long),
        ),
    }
    return {
        kind: (
            {name: tensor.to(arguments.device) for name, tensor in inputs.items()},
            target.to(arguments.device),
        )
        for kind, (inputs, target) in batches.items()
    }


# --- Timing --------------------------------------------------------------------------------------


def time_all(arguments):
    """Let the architectures and the plain ones of their kinds take turns; a row for each."""
    words = pairs.dictionary(arguments.vocabulary)
    batches = random_batches(words, arguments)
    ours = [Contestant(arch, words, arguments) for arch in arguments.archs]
    kinds = dict.fromkeys(contestant.kind for contestant in ours)
    plain = [Contestant(f"plain {kind}", words, arguments) for kind in kinds]
    contestants = {contestant.name: contestant for contestant in (*plain, *ours)}
    turns = [
        partial(contestant.update, batches[contestant.kind], arguments.device)
        for contestant in contestants.values()
    ]
    measured = machine.take_turns("", turns, arguments.updates, arguments.warmup, "round")
    seconds = dict(zip(contestants, measured, strict=True))
    return [
        {
            "name": name,
            "parameters": contestant.parameters,
            "milliseconds": round(1000 * statistics.median(seconds[name]), 1),
            **machine.compare(seconds[name], seconds[f"plain {kind}"]),
        }
        for kind in kinds
        for name, contestant in contestants.items()
        if contestant.kind == kind
    ]


def main():
    arguments = parse_arguments()
    logging.disable(logging.INFO)
    torch.manual_seed(1)
    settings = {name: value for name, value in vars(arguments).items() if name != "json"}
    report = {
        **settings,
        **machine.describe(arguments.device, "float32"),
        "models": time_all(arguments),
    }
    print(
        "{device}, {threads} threads, torch {torch}: {sentences} sentences of up to {length} "
        "words, {layers} layers; {clicks} clicks after up to {history}, titles of up to {title} "
        "words; medians of {updates} updates".format(**report)
    )
    print(f"{'':27} parameters       ms  times the plain Transformer")
    for row in report["models"]:
        print(
            "{name:27} {parameters:10,} {milliseconds:8.1f}  {time_ratio:5.2f} "
            "({time_ratio_lowest:.2f} to {time_ratio_highest:.2f})".format(**row)
        )
    machine.keep(report, arguments.json)


if __name__ == "__main__":
    main()
