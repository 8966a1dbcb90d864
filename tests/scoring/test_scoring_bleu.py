import json
import math

import pytest
import sacrebleu
from known_scores import bleu, score_of

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.bleu import (
    FORMS,
    Sides,
    running_metrics,
    running_text,
    split_compounds,
    tokenised_sides,
)
from fairseq_posattn.scoring.commands.score import score as run
from fairseq_posattn.scoring.moses import detokenise, looks_tokenised
from fairseq_posattn.scoring.pairs import Pairs

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


def test_compounds_that_moses_has_split_are_split_once():
    assert split_compounds(["rich @-@ text @-@ based"]) == split_compounds(["rich-text-based"])
    apart = Pairs(["a rich @-@ text file , new"], ["the rich @-@ text file , new"])
    assert bleu(apart, "compound-split").score == bleu(apart, "tokenised").score


def test_sacrebleu_is_of_running_text():
    assert detokenise(TOKENISED.hypotheses, "en") == RUNNING.hypotheses
    assert running_text(TOKENISED, Sides(True, True), "en") == RUNNING
    assert running_text(TOKENISED, Sides(True, True), None) == RUNNING  # as in English
    assert running_text(TOKENISED, Sides(True, False), "en", RUNNING.references) == RUNNING
    found = bleu(RUNNING, "sacrebleu")
    assert found.score == sacrebleu.corpus_bleu(RUNNING.hypotheses, [RUNNING.references]).score
    assert "tok:13a" in found.signature


def test_chrf_and_ter_are_sacrebleus():
    metrics = running_metrics()
    found = score_of(metrics["chrf2"], RUNNING)
    assert found.score == sacrebleu.corpus_chrf(RUNNING.hypotheses, [RUNNING.references]).score
    assert "nc:6|nw:0" in found.signature
    found = score_of(metrics["ter"], RUNNING)
    assert found.score == sacrebleu.corpus_ter(RUNNING.hypotheses, [RUNNING.references]).score
    assert "tok:tercom" in found.signature


def test_tokens_are_joined_as_the_language_wants_it():
    french = Pairs(["l&apos; eau , dit -il ; oui ?"], ["l&apos; eau ."])
    assert running_text(french, Sides(True, True), "fr").hypotheses == ["l'eau, dit -il ; oui ?"]
    assert running_text(french, Sides(True, True), "de").references == ["l' eau."]
    dashes = Pairs(["a rich @-@ text file"], ["a rich-text file"])
    assert running_text(dashes, Sides(True, False), "en").hypotheses == dashes.references


def test_raw_references_must_be_as_many():
    with pytest.raises(UsageError, match="1 lines for 2 scored sentences"):
        running_text(TOKENISED, Sides(True, True), "en", ["one"])


def test_text_in_tokens_is_told_from_running_text():
    assert looks_tokenised(TOKENISED.references) is True
    assert looks_tokenised(RUNNING.references) is False
    assert looks_tokenised(["no stops at all", ""]) is None
    assert looks_tokenised(["it &apos;s well @-@ known", "no stops"]) is True
    assert looks_tokenised(["Mr. Smith came , and went .", "So did I ."]) is True
    assert looks_tokenised(["这 是 。"]) is True
    assert looks_tokenised(["これはペンです。"]) is False


def test_each_side_is_taken_for_what_it_is():
    mixed = Pairs(TOKENISED.hypotheses, RUNNING.references)
    assert tokenised_sides(mixed) == Sides(True, False)
    assert running_text(mixed, tokenised_sides(mixed), "en") == RUNNING
    assert tokenised_sides(Pairs(["the the the"], ["It is so ."])) == Sides(True, True)
    assert tokenised_sides(Pairs(["the"], ["the"])) == Sides(False, False)
    assert tokenised_sides(TOKENISED, "running") == Sides(False, False)
    assert tokenised_sides(RUNNING, "moses") == Sides(True, True)


@pytest.fixture
def files(tmp_path):
    arguments = []
    for name in ("hypotheses", "references"):
        path = tmp_path / name
        path.write_text("\n".join(getattr(TOKENISED, name)) + "\n", encoding="utf-8")
        arguments += [f"--{name}", str(path)]
    return arguments


def score(arguments):
    return run("bleu", arguments)


def test_text_names_every_form(files, capsys):
    assert score([*files, "--detokenize", "en"]) == 0
    *scores, characters, edits, explained, counts = capsys.readouterr().out.splitlines()
    assert characters.startswith("chrF2 ") and "nc:6" in characters
    assert edits.startswith("TER ") and "tok:tercom" in edits
    assert explained == "in brackets the 95% bootstrap interval over sentences"
    assert [line.split()[:2] for line in scores] == [["BLEU", form] for form in FORMS[:-1]]
    assert counts == "2 hypotheses"


def test_compounds_are_split_by_default_in_german_alone(files, capsys):
    assert score([*files, "--json", "--detokenize", "de"]) == 0
    assert list(json.loads(capsys.readouterr().out)["forms"]) == list(FORMS)


def test_text_has_only_the_forms_that_are_chosen(files, capsys):
    assert score([*files, "--detokenize", "en", "--forms", "sacrebleu"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["BLEU", "in", "2"]


def test_json_gives_the_first_form_as_bleu(files, capsys):
    assert score([*files, "--json", "--detokenize", "en"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result["forms"]) == list(FORMS[:-1])
    assert result["bleu"] == result["forms"]["sacrebleu"]["bleu"]
    assert "tok:13a" in result["signature"]
    assert score([*files, "--json", "--forms", "compound-split", "tokenised"]) == 0
    chosen = json.loads(capsys.readouterr().out)
    assert list(chosen["forms"]) == ["compound-split", "tokenised"]
    assert chosen["bleu"] == chosen["forms"]["compound-split"]["bleu"]
    assert chosen["chrf2"] == result["chrf2"]
    assert chosen["counts"] == {"scored": 2, "missing": 0, "empty": 0, "skipped": 0}


@pytest.mark.parametrize("options", [[], ["--language", "en"], ["--detokenize", "en"]])
def test_escaped_tokens_score_as_the_text_that_they_stand_for(files, capsys, options):
    """Scored as they are, the parts of "&apos;" would count as words, matching each other."""
    assert score([*files, "--json", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    right = sacrebleu.corpus_bleu(RUNNING.hypotheses, [RUNNING.references]).score
    wrong = sacrebleu.corpus_bleu(TOKENISED.hypotheses, [TOKENISED.references], force=True).score
    assert result["bleu"] == pytest.approx(right)
    assert abs(right - wrong) > 1
    assert result["chrf2"] == pytest.approx(
        sacrebleu.corpus_chrf(RUNNING.hypotheses, [RUNNING.references]).score
    )
    assert result["signatures"]["bleu"] == result["signature"]
    assert "nc:6" in result["signatures"]["chrf2"]
    assert result["ter"] == pytest.approx(
        sacrebleu.corpus_ter(RUNNING.hypotheses, [RUNNING.references]).score
    )


def test_json_has_the_warnings_that_are_shown(files, capsys):
    assert score([*files, "--json"]) == 0
    output = capsys.readouterr()
    (warning,) = json.loads(output.out)["warnings"]
    assert output.err == f"warning: {warning}\n"
    assert "detokenized as English for sacrebleu and chrF2" in warning
    assert score([*files, "--json", "--language", "en"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []


def test_unlike_sides_are_warned_of_where_tokens_are_compared(files, tmp_path, capsys):
    (tmp_path / "references").write_text("\n".join(RUNNING.references) + "\n")
    assert score([*files, "--json", "--language", "en"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert "the hypotheses are Moses' tokens but the references are not" in result["warnings"][0]
    assert result["bleu"] == sacrebleu.corpus_bleu(RUNNING.hypotheses, [RUNNING.references]).score
    assert score([*files, "--json", "--language", "en", "--forms", "sacrebleu"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []


def test_the_log_of_fairseq_generate_tells_the_language(tmp_path, capsys):
    path = tmp_path / "generate-test.txt"
    log = "INFO | fairseq.tasks.translation | "
    path.write_text(
        f"2026 | {log}[de] dictionary: 8 types\n2026 | {log}[fr] dictionary: 9 types\n"
        "T-0\tl&apos; eau , oui .\nH-0\t-1\tl&apos; eau .\nD-0\t-1\tl&apos; eau .\n"
    )
    arguments = ["--generated", str(path), "--json"]
    assert score(arguments) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["warnings"] == []
    assert result["bleu"] == sacrebleu.corpus_bleu(["l'eau."], [["l'eau, oui."]]).score


@pytest.mark.parametrize("options", [["--language", "th"], ["--detokenize", "deu"]])
def test_unknown_languages_are_one_line_with_the_known_ones(files, options, capsys):
    assert score([*files, *options]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"language '{options[1]}': unknown" in error and " de el en " in error


def test_a_language_is_said_once(files, capsys):
    assert score([*files, "--detokenize", "de", "--language", "en"]) == 1
    assert "--detokenize: sets --text and --language" in capsys.readouterr().err


def test_missing_files_are_one_line(tmp_path, capsys):
    assert score(["--generated", str(tmp_path / "nowhere")]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "nowhere: No such file" in error


@pytest.mark.parametrize("arguments", [[], ["--generated", "a", "--hypotheses", "b"]])
def test_what_to_score_must_be_said_once(arguments, capsys):
    with pytest.raises(SystemExit):
        score(arguments)
    assert "either --generated FILE or --hypotheses FILE" in capsys.readouterr().err
