"""A small model of every mechanism learns the quickstart's task: German numbers into English."""

import random

import pytest
import torch
from fairseq.data import Dictionary, data_utils
from learning import learn
from torch.nn.functional import cross_entropy

from fairseq_posattn.model.mechanisms import MECHANISMS
from fairseq_posattn.recipes.tiny import english, german

ENCODER_ONLY = {"mtsa", "gaussian", "future", "masked"}
SIZES = [
    f"--{side}-{option}"
    for side in ("encoder", "decoder")
    for option in ("embed-dim=64", "ffn-embed-dim=128", "layers=2", "attention-heads=4")
]
LARGEST = 1000


@pytest.fixture(scope="module")
def numbers():
    """Dictionary, training and test pairs of sentences, as tensors; no number is in both."""
    words = Dictionary()
    pairs = [
        [words.encode_line(spell(number), add_if_not_exist=True) for spell in (german, english)]
        for number in range(LARGEST)
    ]
    random.Random(1).shuffle(pairs)
    return words, pairs[100:], pairs[:100]


def collate(pairs, words):
    """Sources padded left, targets and previous words padded right, as fairseq's tasks do."""
    pad, eos = words.pad(), words.eos()

    def batch(sentences, **options):
        sentences = [sentence.long() for sentence in sentences]
        return data_utils.collate_tokens(sentences, pad, eos, **options)

    sources, targets = zip(*pairs, strict=True)
    previous = batch(targets, move_eos_to_beginning=True)
    return batch(sources, left_pad=True), previous, batch(targets)


def predict(model, source, previous):
    return model(source, source.ne(model.encoder.padding_idx).sum(-1), previous)[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_a_two_layer_model_learns_numbers(build_model, numbers, name):
    """It comes to tell 19 of 20 words of numbers that it has not seen, given those before them."""
    words, training, test = numbers
    torch.manual_seed(1)
    decoder = "san" if name in ENCODER_ONLY else name
    lists = [f"--encoder-sublayers={name},ffn", f"--decoder-sublayers={decoder},cross,ffn"]
    norms = ["--encoder-normalize-before", "--decoder-normalize-before", "--dropout=0"]
    flags = [*SIZES, *lists, *norms, "--share-all-embeddings"]
    model = build_model("posattn_transformer", *flags, tiny=False, words=words)
    source, previous, target = collate(test, words)
    real = target.ne(words.pad())
    order = random.Random(1)

    def loss(model):
        *inputs, targets = collate(order.sample(training, 64), words)
        logits = predict(model, *inputs).flatten(0, 1)
        return cross_entropy(logits, targets.flatten(), ignore_index=words.pad())

    def accuracy(model):
        return predict(model, source, previous).argmax(-1).eq(target)[real].float().mean()

    assert learn(model, loss, accuracy) >= 0.95
