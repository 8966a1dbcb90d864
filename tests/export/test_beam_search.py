"""Beam search of exported models equals fairseq's, for 200 sentences per architecture."""

import math

import pytest
import torch
import torch.nn.functional as F
from test_export import TINY_TRANSFORMER, TRANSFORMERS, unlike
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import fairseq_posattn.hugging_face  # noqa: F401, registers
from fairseq_posattn.export.checkpoint import export
from fairseq_posattn.inference import translation

pytestmark = pytest.mark.slow  # each searches twice for as many sentences
SENTENCES, LONGEST = 200, 10
PAD, EOS, FIRST_WORD, WORDS = 1, 2, 4, 20
TIE = {"atol": 1e-5, "rtol": 0}  # between scores that differ by rounding alone

SIDES = "--encoder-sublayers={0},ffn --decoder-sublayers={0},cross,ffn"
MODELS = {
    **{arch: (arch, "--share-all-embeddings") for arch in unlike(TRANSFORMERS)},
    "stock": ("posattn_transformer", ""),
    "pre-norm": ("posattn_transformer", "--encoder-normalize-before --decoder-normalize-before"),
    **{
        f"{mechanism} on both sides": ("posattn_transformer", SIDES.format(mechanism))
        for mechanism in ("rpr", "transformer_xl", "tener", "sman")
    },
    "several on both sides": (
        "posattn_transformer",
        "--encoder-sublayers=gaussian,past,future,ffn --decoder-sublayers=masked,da,mtsa,cross,ffn "
        "--attention-masks=past --mtsa-masks=past --decoder-learned-pos",
    ),
}


def draw(count, seed):
    """Return random sentences of token numbers."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, LONGEST, (count,), generator=generator).tolist()
    return [torch.randint(WORDS, (length,), generator=generator) for length in lengths]


def train_a_little(path, model):
    """Train the model of a checkpoint briefly to reverse its input; it stays uncertain."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    end = torch.tensor([EOS])
    for update in range(60):
        words = [one + FIRST_WORD for one in draw(32, seed=update)]
        backwards = [one.flip(0) for one in words]
        source, before, target = (
            pad_sequence([torch.cat(pair) for pair in pairs], batch_first=True, padding_value=PAD)
            for pairs in (
                [(one, end) for one in words],
                [(end, one) for one in backwards],
                [(one, end) for one in backwards],
            )
        )
        logits, _ = model(source, source.ne(PAD).sum(1), before)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    state = torch.load(path, weights_only=True)
    torch.save({**state, "model": model.state_dict()}, path)


def by_transformers(folder, lines):
    """Return the best texts, and their scores as fairseq's commands print them."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    inputs = tokenizer(lines, padding=True, return_tensors="pt")
    output = model.generate(**inputs, output_scores=True, return_dict_in_generate=True)
    texts = tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
    return texts, output.sequences_scores / math.log(2)


@pytest.mark.parametrize("name", MODELS)
def test_beam_search_equals_fairseqs(name, translator, tmp_path):
    arch, flags = MODELS[name]
    path, model = translator(arch, *TINY_TRANSFORMER, *flags.split())
    train_a_little(path, model)
    export(path, tmp_path / "out", max_len_b=LONGEST)
    lines = [" ".join(f"word{number}" for number in words) for words in draw(SENTENCES, seed=1000)]
    ours = translation.load([path], str(tmp_path), device="cpu", max_len_b=LONGEST)
    expected = [line.hypotheses[0] for line in ours(lines)]
    texts, scores = by_transformers(tmp_path / "out", lines)
    torch.testing.assert_close(scores, torch.tensor([best.score for best in expected]), **TIE)
    assert texts == [best.text for best in expected]
    assert len(set(texts)) > 10
