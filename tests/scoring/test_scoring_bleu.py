import json
import math

import pytest
import sacrebleu
import score_bleu
from scoring.bleu import FORMS, bleu, detokenise, looks_tokenised, split_compounds
from scoring.command import run
from scoring.pairs import Pairs

from fairseq_posattn.errors import UsageError

# Moses tokens: a hyphen, a quotation and an apostrophe are set apart or escaped.
TOKENISED = Pairs(
    ["The well-known man &quot; spoke &quot; , he didn &apos;t sing .", "It is 5 o&apos;clock ."],
    ["The well-known man &quot; spoke &quot; , but didn &apos;t sing .", "it is 5 o&apos;clock !"],
)
RUNNING = Pairs(
    ['The well-known man "spoke", he didn\'t sing.', "It is 5 o'clock."],
    ['The well-known man "spoke", but didn\'t sing.', "it is 5 o'clock!"],
)


def reference_bleu(hypotheses, references):
    """BLEU-4 without smoothing (Papineni et al., 2002), counted n-gram by n-gram."""
    logs = 0.0
    lengths = [sum(len(line.split()) for line in side) for side in (hypotheses, references)]
    for n in range(1, 5):
        matches = total = 0
        for hypothesis, reference in zip(hypotheses, references, strict=True):
            grams = [hypothesis.split()[i : i + n] for i in range(len(hypothesis.split()) - n + 1)]
            left = [reference.split()[i : i + n] for i in range(len(reference.split()) - n + 1)]
            total += len(grams)
            for gram in grams:
                if gram in left:
                    left.remove(gram)
                    matches += 1
        logs += math.log(matches / total) / 4
    return 100 * min(1, math.exp(1 - lengths[1] / lengths[0])) * math.exp(logs)


def test_tokenised_is_bleu_of_the_tokens():
    expected = reference_bleu(TOKENISED.hypotheses, TOKENISED.references)
    assert bleu(TOKENISED, "tokenised").score == pytest.approx(expected)


def test_lowercase_is_bleu_of_lower_cased_tokens():
    expected = reference_bleu(
        [line.lower() for line in TOKENISED.hypotheses],
        [line.lower() for line in TOKENISED.references],
    )
    found = bleu(TOKENISED, "tokenised-lowercase")
    assert found.score == pytest.approx(expected)
    assert "case:lc" in found.signature


def test_compounds_are_split_at_hyphens_within_words():
    assert split_compounds(["rich-text - a-b-c -x"]) == [
        "rich ##AT##-##AT## text - a ##AT##-##AT## b-c -x"
    ]
    expected = reference_bleu(
        [line.replace("l-k", "l ##AT##-##AT## k") for line in TOKENISED.hypotheses],
        [line.replace("l-k", "l ##AT##-##AT## k") for line in TOKENISED.references],
    )
    assert bleu(TOKENISED, "compound-split").score == pytest.approx(expected)
    assert bleu(TOKENISED, "compound-split").score > bleu(TOKENISED, "tokenised").score


def test_sacrebleu_is_of_running_text():
    expected = sacrebleu.corpus_bleu(RUNNING.hypotheses, [RUNNING.references]).score
    assert detokenise(TOKENISED.hypotheses, "en") == RUNNING.hypotheses
    assert bleu(RUNNING, "sacrebleu").score == expected
    assert bleu(TOKENISED, "sacrebleu", "en").score == expected
    assert bleu(TOKENISED, "sacrebleu", "en", RUNNING.references).score == expected
    assert "tok:13a" in bleu(RUNNING, "sacrebleu").signature


def test_raw_references_must_be_as_many():
    with pytest.raises(UsageError, match="1 raw references for 2 sentences"):
        bleu(TOKENISED, "sacrebleu", "en", ["one"])


def test_text_in_tokens_is_told_from_running_text():
    assert looks_tokenised(TOKENISED.references)
    assert not looks_tokenised(RUNNING.references)
    assert not looks_tokenised(["no stops at all"])


@pytest.fixture
def files(tmp_path):
    arguments = []
    for name in ("hypotheses", "references"):
        path = tmp_path / name
        path.write_text("\n".join(getattr(TOKENISED, name)) + "\n", encoding="utf-8")
        arguments += [f"--{name}", str(path)]
    return arguments


def score(arguments):
    return run(score_bleu.parser(), score_bleu.score, arguments)


def test_text_names_every_form(files, capsys):
    assert score([*files, "--detokenize", "en"]) == 0
    *scores, counts = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in scores] == [["BLEU", form] for form in FORMS]
    assert counts.startswith("2 hypotheses, 0 of them missing and 0 empty")


def test_json_gives_the_first_form_as_bleu(files, capsys):
    assert score([*files, "--json", "--detokenize", "en"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["forms"]) == list(FORMS)
    assert result["bleu"] == result["forms"]["sacrebleu"]["bleu"]
    assert "tok:13a" in result["signature"]
    assert score([*files, "--json", "--forms", "compound-split", "tokenised"]) == 0
    chosen = json.loads(capsys.readouterr().out)
    assert list(chosen["forms"]) == ["compound-split", "tokenised"]
    assert chosen["bleu"] == result["forms"]["compound-split"]["bleu"]
    assert chosen["counts"] == {"scored": 2, "missing": 0, "empty": 0, "skipped": 0}


def test_tokens_without_detokenize_are_warned_of(files, capsys):
    assert score(files) == 0
    assert "give --detokenize LANG" in capsys.readouterr().err


def test_missing_files_are_one_line(tmp_path, capsys):
    assert score(["--generated", str(tmp_path / "nowhere")]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "nowhere: No such file" in error


@pytest.mark.parametrize("arguments", [[], ["--generated", "a", "--hypotheses", "b"]])
def test_what_to_score_must_be_said_once(arguments, capsys):
    with pytest.raises(SystemExit):
        score(arguments)
    assert "either --generated FILE or --hypotheses FILE" in capsys.readouterr().err
