"""Time of a training update of each classifier beside transformer_classifier of its width.

    python benchmarks/classification.py
    python benchmarks/classification.py --archs mpsan_classifier --dropout 0

All models take turns on the same random sentences: forward pass, cross-entropy, backward pass and a
step of Adam, which trains word vectors, too.
"""

from types import SimpleNamespace

import machine
import torch
import translation_pairs as pairs

from fairseq_posattn.training.presets import ARCHITECTURES

CLASSES = 5
# Heads of transformer_classifier by the widths of the architectures. Its feed-forward sublayer is
# four times as wide, as in Vaswani et al. (2017).
HEADS = {256: 16, 300: 10, 512: 8, 600: 8}
# Left out: FastText (ten features, 100M parameters) and HAN (takes documents apart).
UNTIMED = ("fasttext_classifier", "han_classifier")
TIMED = [arch for arch in ARCHITECTURES["posattn_classifier"] if arch not in UNTIMED]
TRANSFORMERS = {
    f"transformer {width}": f"transformer_classifier --encoder-hidden-dim={width} "
    f"--encoder-attention-heads={heads} --encoder-ffn-embed-dim={4 * width}"
    for width, heads in HEADS.items()
}


def build(arch, words, arguments):
    task, dropout = "sentence_prediction", arguments.dropout
    flags = f"--task {task} --criterion {task} --arch {arch} --num-classes {CLASSES}"
    flags += "" if dropout is None else f" --dropout={dropout}"
    model = pairs.build_model(flags.split(), SimpleNamespace(source_dictionary=words))
    model.register_classification_head("head", CLASSES)
    return model.to(arguments.device, getattr(torch, arguments.dtype))


def measure(arguments):
    """Yield a row for each architecture and each Transformer of their widths."""
    words = pairs.dictionary(arguments.vocabulary)
    count, device = arguments.sentences, arguments.device
    generator = torch.Generator().manual_seed(1)
    tokens, lengths = pairs.random_sentences(words, count, arguments.length, generator)
    # Sentences end with EOS and are padded on the right.
    tokens = torch.cat([tokens, torch.full((count, 1), words.pad())], dim=1)
    tokens[torch.arange(count), lengths] = words.eos()
    target = torch.randint(CLASSES, (count,), generator=generator)
    tokens, target = tokens.to(device), target.to(device)
    models = {arch: build(arch, words, arguments) for arch in arguments.archs}
    widths = {name: model.encoder.words.encoder.output_dim for name, model in models.items()}
    for width in sorted(set(widths.values())):
        name = f"transformer {width}"
        models[name], widths[name] = build(TRANSFORMERS[name], words, arguments), width

    def loss_of(model):
        logits = model(tokens, classification_head_name="head")[0]
        return torch.nn.functional.cross_entropy(logits.float(), target)

    turns = {name: pairs.trainer(model, loss_of) for name, model in models.items()}
    seconds = machine.take_turns("update", turns, arguments.updates, arguments.warmup, device)
    for name, model in models.items():
        yield {
            **{"name": name, "width": widths[name]},
            "parameters": pairs.parameters(model) - model.encoder.embed_tokens.weight.numel(),
            "milliseconds": machine.milliseconds(seconds[name]),
            **machine.compare(seconds[name], seconds[f"transformer {widths[name]}"]),
        }


def tables(report):
    dropout = report.get("dropout")
    rows = [
        {
            **{"classifier": f"`{row['name']}`", "width": row["width"]},
            "parameters": f"{row['parameters']:,}",
            "device": report["device"],
            "dropout": "default" if dropout is None else f"{dropout:g}",
            "time / Transformer's": machine.ratio(row),
        }
        for row in report["rows"]
        if row["name"] not in TRANSFORMERS
    ]
    return {"": machine.table(rows)}


OPTIONS = {
    "archs": (TIMED, "architectures", TIMED),
    "sentences": (32, "sentences in a batch"),
    "length": (50, "tokens of the longest sentence"),
    "vocabulary": (10000, "dictionary size"),
    "dropout": (float, "dropout of all models (default: each one's)"),
    **pairs.rounds(11, 2),
    **machine.DEVICE,
}
SETTINGS = ("sentences", "length", "vocabulary", "dropout", "updates")
BENCHMARKS = {"": machine.Benchmark(OPTIONS, measure, tables, SETTINGS)}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
