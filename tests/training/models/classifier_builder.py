"""Classifiers as fairseq-train builds them, on a dictionary of numbered words."""

import argparse
from types import SimpleNamespace

import torch
from fairseq import models
from fairseq.data import Dictionary
from fairseq.models import MODEL_DATACLASS_REGISTRY, MODEL_REGISTRY

from fairseq_posattn.training.models import PosAttnClassifier

HEAD = "sentence_classification_head"
PAD, EOS = 1, 2
# Small widths at which every architecture can be built; mtsa, disan and the Bi-LSTM halve theirs.
TINY = ["--encoder-embed-dim=12", "--encoder-hidden-dim=0", "--encoder-attention-heads=2"]
TINY += ["--encoder-ffn-embed-dim=16", "--head-dim=6", "--pooling-queries=3", "--dropout=0"]
# Further flags of an architecture: fewer bigrams, and ends of sentences.
TINY_OF = {
    "fasttext_classifier": ["--ngram-buckets=64"],
    "han_classifier": ["--sentence-ends=word3 word4"],
}


def dictionary_of(*words):
    symbols = Dictionary()
    for word in words:
        symbols.add_symbol(word)
    return symbols


def dictionary(words=16):
    """Return the words ``word0``, ``word1``, ... and the separator of sentences."""
    return dictionary_of(*(f"word{word}" for word in range(words)), "<sep>")


def build(arch, *flags, tiny=True, classes=5, pairs=False, words=None):
    """Build a classifier with its head registered."""
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    parser.add_argument("--max-positions", type=int, default=512)  # the task's
    PosAttnClassifier.add_args(parser)
    cfg = parser.parse_args([*([*TINY, *TINY_OF.get(arch, ())] if tiny else ()), *flags])
    cfg.arch = arch
    task = SimpleNamespace(cfg=cfg, source_dictionary=words or dictionary(), encodes_pairs=pairs)
    model = models.build_model(cfg, task)
    model.register_classification_head(HEAD, num_classes=classes)
    return model


def numbered_dictionary(size):
    return dictionary_of(*map(str, range(size)))


def build_from_config(arch, task, **options):
    """Build a model of an architecture from fields of its config and attributes of a task."""
    cfg = MODEL_DATACLASS_REGISTRY[arch]()
    for name, value in options.items():
        setattr(cfg, name, value)
    return MODEL_REGISTRY[arch].build_model(cfg, SimpleNamespace(**task))


def sentences(*lengths, left_pad=False, seed=0, words=16):
    """Return rows of so many random words, followed by ``</s>`` and padding."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths) + 1
    batch = torch.full((len(lengths), longest), PAD)
    for row, length in zip(batch, lengths, strict=True):
        sentence = torch.randint(4, 4 + words, (length + 1,), generator=generator)
        sentence[-1] = EOS
        row[slice(longest - length - 1, None) if left_pad else slice(length + 1)] = sentence
    return batch


def scores(model, tokens, pair_tokens=None):
    return model(tokens, classification_head_name=HEAD, pair_tokens=pair_tokens)[0]


def parameters(model):
    """Count the parameters without the token embeddings."""
    embeddings = model.encoder.embed_tokens.weight.numel()
    return sum(parameter.numel() for parameter in model.parameters()) - embeddings


def randomise(model, seed=0):
    """Add noise to every parameter, since some start at 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
        model.encoder.embed_tokens.weight[PAD] = 0
    return model
