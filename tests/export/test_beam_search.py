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
TIE = 1e-5  # between scores that differ by rounding alone

MODELS = {
    **{arch: (arch, "--share-all-embeddings") for arch in unlike(TRANSFORMERS)},
    "stock": ("posattn_transformer", ""),
    "stock, pre-norm": (
        "posattn_transformer",
        "--encoder-normalize-before --decoder-normalize-before",
    ),
    **{
        f"{mechanism} on both sides": (
            "posattn_transformer",
            f"--encoder-sublayers={mechanism},ffn --decoder-sublayers={mechanism},cross,ffn",
        )
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
        sentences = [words + FIRST_WORD for words in draw(32, seed=update)]
        source, before, target = (
            pad_sequence(rows, batch_first=True, padding_value=PAD)
            for rows in (
                [torch.cat([words, end]) for words in sentences],
                [torch.cat([end, words.flip(0)]) for words in sentences],
                [torch.cat([words.flip(0), end]) for words in sentences],
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
    """Return the best text for each line, and its score as fairseq's commands print it."""
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = []
    for start in range(0, len(lines), 250):
        inputs = tokenizer(lines[start : start + 250], padding=True, return_tensors="pt")
        output = model.generate(**inputs, output_scores=True, return_dict_in_generate=True)
        texts = tokenizer.batch_decode(output.sequences, skip_special_tokens=True)
        scores = output.sequences_scores / math.log(2)
        found += zip(texts, scores.tolist(), strict=True)
    return found


@pytest.mark.parametrize("name", MODELS)
def test_beam_search_equals_fairseqs(name, translator, tmp_path):
    arch, flags = MODELS[name]
    path, model = translator(arch, *TINY_TRANSFORMER, *flags.split())
    train_a_little(path, model)
    export(path, tmp_path / "out", max_len_b=LONGEST)
    lines = [" ".join(f"word{number}" for number in words) for words in draw(SENTENCES, seed=1000)]
    ours = translation.load([path], str(tmp_path), device="cpu", max_len_b=LONGEST)
    expected = [line.hypotheses[0] for line in ours(lines)]
    found = by_transformers(tmp_path / "out", lines)
    others = [pair for pair in zip(expected, found, strict=True) if pair[0].text != pair[1][0]]
    scores = torch.tensor(
        [[best.score, score] for best, (_, score) in zip(expected, found, strict=True)]
    )
    torch.testing.assert_close(scores[:, 1], scores[:, 0], atol=TIE, rtol=0)
    assert not others
    assert len({best.text for best in expected}) > 10
