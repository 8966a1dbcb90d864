"""Small translation models of every mechanism learn numbers, German to English."""

import random

import classifier_builder
import pytest
import torch
from fairseq.data import Dictionary, data_utils
from torch.nn.functional import cross_entropy

from fairseq_posattn.model.mechanisms import MECHANISMS
from fairseq_posattn.recipes.tiny import english, german

PAD = classifier_builder.PAD


ENCODER_ONLY = {"mtsa", "gaussian", "future", "masked"}
SIZES = [
    f"--{side}-{option}"
    for side in ("encoder", "decoder")
    for option in ("embed-dim=64", "ffn-embed-dim=128", "layers=2", "attention-heads=4")
]


@pytest.fixture(scope="module")
def numbers():
    """Return the dictionary, training and test pairs, as tensors."""
    words = Dictionary()
    pairs = [
        [words.encode_line(spell(number)).long() for spell in (german, english)]
        for number in range(1000)
    ]
    random.Random(1).shuffle(pairs)
    return words, pairs[100:], pairs[:100]


def collate(pairs, eos):
    """Return sources, previous and target tokens."""
    sources, targets = zip(*pairs, strict=True)
    return (
        data_utils.collate_tokens(sources, PAD, eos, left_pad=True),
        data_utils.collate_tokens(targets, PAD, eos, move_eos_to_beginning=True),
        data_utils.collate_tokens(targets, PAD, eos),
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_translation_models_learn_numbers(build_model, numbers, name):
    words, training, test = numbers
    torch.manual_seed(1)
    decoder = "san" if name in ENCODER_ONLY else name
    flags = [f"--encoder-sublayers={name},ffn", f"--decoder-sublayers={decoder},cross,ffn"]
    flags += ["--encoder-normalize-before", "--decoder-normalize-before", "--dropout=0"]
    flags += [*SIZES, "--share-all-embeddings"]
    model = build_model("posattn_transformer", *flags, tiny=False, words=words)
    optimizer, order = torch.optim.Adam(model.parameters(), lr=0.003), random.Random(1)

    def predict(pairs):
        source, previous, target = collate(pairs, words.eos())
        return model(source, source.ne(PAD).sum(-1), previous)[0], target

    accuracy = 0.0
    for update in range(1, 401):
        logits, target = predict(order.sample(training, 64))
        optimizer.zero_grad()
        cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD).backward()
        optimizer.step()
        if update % 20 == 0 and accuracy < 0.95:
            with torch.no_grad():
                logits, target = predict(test)
            accuracy = logits.argmax(-1).eq(target)[target.ne(PAD)].float().mean().item()
        if accuracy >= 0.95:
            return
    pytest.fail(f"{accuracy:.2f} of the words are right")
