"""Comparisons with a baseline, against sacreBLEU's own tests and against loops."""

import json
import random

import numpy
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from sacrebleu.significance import PairedTest

from fairseq_posattn.scoring.__main__ import score
from fairseq_posattn.scoring.significance import MeanOfSentences, compare

WORDS = ["a", "man", "in", "red", "hat", "is", "looking", "at", "the", "woman", "with", "dog"]


def damaged(lines, share, seed):
    generator = random.Random(seed)
    return [" ".join(word for word in line.split() if generator.random() > share) for line in lines]


@pytest.fixture(scope="module")
def texts():
    """References, a system, and a baseline that is a little worse."""
    generator = random.Random(1)
    references = [" ".join(generator.choices(WORDS, k=12)) + "." for _ in range(40)]
    return references, damaged(references, 0.2, seed=2), damaged(references, 0.25, seed=3)


def test_p_is_sacrebleus(texts):
    references, system, baseline = texts
    metrics = {"bleu": BLEU(force=True), "chrf2": CHRF(), "ter": TER()}
    found = compare(metrics, system, baseline, references)
    named = {"BLEU": BLEU(force=True), "chrF2": CHRF(), "TER": TER()}
    systems = [("baseline", baseline), ("system", system)]
    for kind, ours in (("bs", "p"), ("ar", "p_randomisation")):
        _, theirs = PairedTest(systems, named, [references], test_type=kind)()
        for name, called in zip(metrics, named, strict=True):
            before, after = theirs[called]
            assert found[name].baseline == before.score
            assert found[name].difference == after.score - before.score
            assert getattr(found[name], ours) == after.p_value
            assert 1 / 1001 < after.p_value < 1  # of a difference that could be chance


def test_scores_of_sentences_are_resampled_together():
    generator = numpy.random.default_rng(1)
    baseline = generator.uniform(0, 100, size=30)
    system = baseline + generator.normal(2, 8, size=30)
    found = compare({"rouge1": MeanOfSentences("rouge1")}, list(system), list(baseline))["rouge1"]
    gained = system - baseline
    assert found.baseline == pytest.approx(baseline.mean())
    assert found.difference == pytest.approx(gained.mean())
    resampled = [abs(generator.choice(gained, size=30).mean()) for _ in range(20_000)]
    by_chance = numpy.array(resampled) - numpy.mean(resampled)
    assert found.p == pytest.approx((by_chance > abs(gained.mean())).mean(), abs=0.03)
    signs = generator.choice([-1, 1], size=(20_000, 30))
    exchanged = abs((signs * gained).mean(axis=1))
    assert found.p_randomisation == pytest.approx((exchanged > gained.mean()).mean(), abs=0.03)


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


@pytest.fixture
def files(texts, tmp_path):
    names = ("references", "hypotheses", "baseline")
    return [
        word
        for name, lines in zip(names, texts, strict=True)
        for word in (f"--{name}", write(tmp_path / name, lines))
    ]


def test_bleu_against_a_baseline(files, texts, capsys):
    assert score("bleu", [*files, "--json", "--language", "en"]) == 0
    result = json.loads(capsys.readouterr().out)
    expected = compare({"bleu": BLEU(force=True)}, texts[1], texts[2], texts[0])["bleu"]
    assert result["p"] == expected.p == result["significance"]["bleu"]["p"]
    assert result["baseline"] == expected.baseline
    assert result["bleu"] == pytest.approx(result["baseline"] + result["difference"])
    assert result["significance"]["ter"]["difference"] < 0
    assert "bs:1000" in result["significance"]["tests"]
    assert score("bleu", [*files, "--language", "en"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in told if " against " in line] == ["BLEU", "chrF2", "TER"]


def test_rouge_against_a_baseline(files, capsys):
    pytest.importorskip("rouge_score")
    assert score("rouge", [*files, "--json", "--jobs", "1"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["rouge1"] == pytest.approx(result["baseline"] + result["difference"])
    assert 0 < result["p"] < 1
    assert set(result["significance"]) == {"rouge1", "rouge2", "rougeL", "tests"}


def generated(lines, references):
    return [
        row
        for number, (line, reference) in enumerate(zip(lines, references, strict=True))
        for row in (f"T-{number}\t{reference}", f"H-{number}\t-1\t{line}")
    ]


def test_baselines_as_fairseq_generate_wrote_them(files, texts, tmp_path, capsys):
    references, system, baseline = texts
    assert score("bleu", [*files, "--json", "--language", "en"]) == 0
    expected = json.loads(capsys.readouterr().out)
    arguments = ["--generated", write(tmp_path / "g1", generated(system, references))]
    arguments += ["--baseline", write(tmp_path / "g2", generated(baseline, references))]
    assert score("bleu", [*arguments, "--json", "--language", "en"]) == 0
    assert json.loads(capsys.readouterr().out) == expected


def test_another_test_set_is_no_baseline(files, texts, tmp_path, capsys):
    references, system, baseline = texts
    files[-1] = write(tmp_path / "short", baseline[1:])
    assert score("bleu", files) == 1
    assert "short has 39 lines for 40 sentences" in capsys.readouterr().err
    arguments = ["--generated", write(tmp_path / "g1", generated(system, references))]
    other = generated(baseline, references[::-1])
    assert score("bleu", [*arguments, "--baseline", write(tmp_path / "g2", other)]) == 1
    assert "g2: its references are not those that are scored" in capsys.readouterr().err
