import json
import os

import pytest
import sacrebleu

from fairseq_posattn.scoring import bleu
from fairseq_posattn.scoring.bleu import (
    FORMS,
    Sides,
    looks_tokenized,
    running_text,
    tokenized_sides,
)
from fairseq_posattn.scoring.commands.score import score as run
from fairseq_posattn.scoring.outputs import Pairs

pytestmark = pytest.mark.usefixtures("few_draws")

# Moses tokens: a hyphen, a quotation and an apostrophe are set apart or escaped.
TOKENIZED = Pairs(
    ["The well-known man &quot; spoke &quot; , he didn &apos;t sing .", "It is 5 o&apos;clock ."],
    ["The well-known man &quot; spoke &quot; , but didn &apos;t sing .", "it is 5 o&apos;clock !"],
)
RUNNING = Pairs(
    ['The well-known man "spoke", he didn\'t sing.', "It is 5 o'clock."],
    ['The well-known man "spoke", but didn\'t sing.', "it is 5 o'clock!"],
)


def score_of(metric, pairs):
    return bleu.group_of(metric, [pairs]).mean


def bleu_of(pairs, form, language=None):
    return score_of(bleu.bleu_metric(form, language), bleu.text_of(form, pairs, pairs))


def test_tokenised_forms_score_tokens():
    for form, change in (
        ("tokenised", str),
        ("tokenised-lowercase", str.lower),
        ("compound-split", lambda line: line.replace("l-k", "l ##AT##-##AT## k")),
    ):
        sides = (list(map(change, side)) for side in (TOKENIZED.hypotheses, TOKENIZED.references))
        hypotheses, references = sides
        expected = sacrebleu.corpus_bleu(hypotheses, [references], tokenize="none", force=True)
        assert bleu_of(TOKENIZED, form) == expected.score
    split = bleu.split_compounds  # at hyphens within words, once
    assert split(["rich-text - a-b-c -x"]) == ["rich ##AT##-##AT## text - a ##AT##-##AT## b-c -x"]
    assert split(["rich @-@ text @-@ based"]) == split(["rich-text-based"])
    apart = Pairs(["a rich @-@ text file , new"], ["the rich @-@ text file , new"])
    assert bleu_of(apart, "compound-split") == bleu_of(apart, "tokenised")


def test_sacrebleu_scores_running_text():
    assert bleu.detokenize_lines(TOKENIZED.hypotheses, "en") == RUNNING.hypotheses
    assert running_text(TOKENIZED, Sides(True, True), "en") == RUNNING
    assert running_text(TOKENIZED, Sides(True, True), None) == RUNNING  # as in English
    assert running_text(TOKENIZED, Sides(True, False), "en", RUNNING.references) == RUNNING
    expected = sacrebleu.corpus_bleu(RUNNING.hypotheses, [RUNNING.references]).score
    assert bleu_of(RUNNING, "sacrebleu") == expected


def test_detokenization_depends_on_the_language():
    french = Pairs(["l&apos; eau , dit -il ; oui ?"], ["l&apos; eau ."])
    assert running_text(french, Sides(True, True), "fr").hypotheses == ["l'eau, dit -il ; oui ?"]
    assert running_text(french, Sides(True, True), "de").references == ["l' eau."]
    dashes = Pairs(["a rich @-@ text file"], ["a rich-text file"])
    assert running_text(dashes, Sides(True, False), "en").hypotheses == dashes.references


def test_tokens_are_detected():
    assert looks_tokenized(["no stops at all", ""]) is None
    assert looks_tokenized(["a&amp;b", *["no stops at all"] * 23]) is None
    tokens = (["it &apos;s well @-@ known", "no"], ["Mr. Smith came , and went ."], ["这 是 。"])
    tokens += ["یہ کتاب ہے ۔"], ["نعم ، هذا صحيح"], ["ይህ ነው ።"]
    assert all(map(looks_tokenized, (TOKENIZED.references, *tokens)))
    running = map(looks_tokenized, (RUNNING.references, ["これはペンです。"], ["یہ کتاب ہے۔"]))
    assert list(running) == [False, False, False]


def test_each_side_is_detected_separately():
    mixed = Pairs(TOKENIZED.hypotheses, RUNNING.references)
    assert tokenized_sides(mixed) == Sides(True, False)
    assert running_text(mixed, tokenized_sides(mixed), "en") == RUNNING
    assert tokenized_sides(Pairs(["the the the"], ["It is so ."])) == Sides(True, True)
    assert tokenized_sides(Pairs(["the"], ["the"])) == Sides(False, False)
    assert tokenized_sides(TOKENIZED, "running") == Sides(False, False)
    assert tokenized_sides(RUNNING, "moses") == Sides(True, True)


def test_the_script_selects_the_language():
    lines = ["我爱北京天安门。", "私は北京が好きです。", "나는 베이징을 사랑한다", "I love 北京 ."]
    lines += ["อากาศดี", "ឆ្មាដេក", "ແມວນອນ", "ခွေးအိပ်", "ཞི་མི་ཉལ", "ꊿꂷꃅꄿ", "кот спит"]
    lines += ["点击 Settings 打开 Network Connections 面板。", "Python入門を読む"]
    languages = ["zh", "ja", "ko", None, "th", "km", "lo", "my", "bo", "ii", None, "zh", "ja"]
    assert [bleu.language_by_script([line]) for line in lines] == languages
    assert bleu.language_by_script([*lines[:1] * 9, "鲜の每日"]) == "zh"


def test_chrf_is_first_without_a_tokenizer(write, capsys):
    path = write("text", ["วันนี้อากาศดีมาก", "แมวนอนอยู่"])
    sides = ["--hypotheses", path, "--references", path]
    assert run("bleu", [*sides, "--baseline", path]) == 0
    output = capsys.readouterr()
    first, *lines = output.out.splitlines()
    assert first.startswith("chrF2 ") and "tok:char" in lines[0]
    assert "report chrF2: BLEU of characters is not comparable with other BLEU" in lines
    assert [line.split()[0] for line in lines if " against " in line] == ["chrF2", "BLEU", "TER"]
    assert "guessed by script" in output.err
    assert "language th: TER counts words between spaces" in output.err
    assert run("bleu", [*sides, "--language", "de", "--baseline", path]) == 0
    output = capsys.readouterr()
    lines = output.out.splitlines()
    assert [line.split()[0] for line in lines if " against " in line] == ["BLEU", "chrF2", "TER"]
    assert output.out.startswith("BLEU ") and "report chrF2" not in output.out
    assert "TER" not in output.err


@pytest.fixture
def files(write):
    names = ("hypotheses", "references")
    return [word for name in names for word in (f"--{name}", write(name, getattr(TOKENIZED, name)))]


def test_every_form_is_printed_or_those_selected(files, write, capsys, as_json):
    """Check that --forms omits chrF2 and TER, with a baseline too, and plain text the tokenised."""
    options = [*files, "--detokenize", "en"]
    assert run("bleu", options) == 0
    *scores, characters, edits, explained, counts = capsys.readouterr().out.splitlines()
    assert characters.startswith("chrF2 ") and "nc:6" in characters
    assert edits.startswith("TER ") and "tok:tercom" in edits
    assert explained == "in brackets the 95% bootstrap interval over sentences"
    assert [line.split()[:2] for line in scores] == [["BLEU", form] for form in FORMS[:-1]]
    assert counts == "2 hypotheses"
    for baseline in ([], ["--baseline", files[1]]):
        assert run("bleu", [*options, "--forms", "sacrebleu", *baseline]) == 0
        words = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
        assert words == ["BLEU", "in", *(["BLEU", "tested"] if baseline else []), "2"]
    plain = write("text", ["Yes, he said (again). It's fine, isn't it?"] * 3)
    options = ["--hypotheses", plain, "--references", plain, "--language", "en"]
    assert run("bleu", options) == 0
    output = capsys.readouterr()
    assert "tokenised" not in output.out and not output.err
    assert list(as_json("bleu", options)["forms"]) == list(FORMS[:-1])


def test_json_gives_the_first_form_as_bleu(files, as_json):
    result = as_json("bleu", [*files, "--detokenize", "en"])
    assert list(result["forms"]) == list(FORMS[:-1])  # compounds are German's
    assert list(as_json("bleu", [*files, "--detokenize", "de"])["forms"]) == list(FORMS)
    assert result["bleu"] == result["forms"]["sacrebleu"]["bleu"]
    assert "tok:13a" in result["signature"]
    assert "case:lc" in result["forms"]["tokenised-lowercase"]["signature"]
    chosen = as_json("bleu", [*files, "--forms", "compound-split", "tokenised"])
    assert list(chosen["forms"]) == ["compound-split", "tokenised"]
    assert chosen["bleu"] == chosen["forms"]["compound-split"]["bleu"]
    assert chosen["chrf2"] == result["chrf2"]
    assert chosen["counts"] == {"scored": 2, "missing": 0, "empty": 0, "skipped": 0}


@pytest.mark.parametrize("options", [[], ["--language", "en"], ["--detokenize", "en"]])
def test_escaped_tokens_score_like_running_text(files, capsys, options):
    """Check that the parts of "&apos;" do not count as matching words."""
    assert run("bleu", [*files, *options, "--json"]) == 0
    output = capsys.readouterr()
    result = json.loads(output.out)
    right = sacrebleu.corpus_bleu(RUNNING.hypotheses, [RUNNING.references]).score
    wrong = sacrebleu.corpus_bleu(TOKENIZED.hypotheses, [TOKENIZED.references], force=True).score
    assert result["bleu"] == pytest.approx(right)
    assert abs(right - wrong) > 1
    others = (sacrebleu.corpus_chrf, sacrebleu.corpus_ter)
    expected = [score(RUNNING.hypotheses, [RUNNING.references]).score for score in others]
    assert [result["chrf2"], result["ter"]] == pytest.approx(expected)
    assert result["signatures"]["bleu"] == result["signature"]
    assert output.err == "".join(f"warning: {warning}\n" for warning in result["warnings"])
    assert len(result["warnings"]) == (0 if options else 1)
    assert options or "are read as English; give --language" in output.err


def test_tokens_beside_running_text_give_a_warning(files, write, as_json):
    write("references", RUNNING.references)
    result = as_json("bleu", [*files, "--language", "en"])
    warning = result["warnings"][0]
    assert "the hypotheses are Moses' tokens but the references are not" in warning
    assert warning.endswith("if both are plain text, give --text running")
    assert result["bleu"] == sacrebleu.corpus_bleu(RUNNING.hypotheses, [RUNNING.references]).score
    alone = as_json("bleu", [*files, "--language", "en", "--forms", "sacrebleu"])
    assert alone["warnings"] == []


def test_running_text_compared_with_tokens_by_a_tokenised_form_gives_a_warning(
    files, write, as_json
):
    options = [*files, "--language", "en", "--baseline", write("other", RUNNING.hypotheses)]
    assert as_json("bleu", options)["warnings"] == []
    [warning] = as_json("bleu", [*options, "--forms", "tokenised"])["warnings"]
    assert warning.startswith("baseline: the references are Moses' tokens but the hypotheses are")


@pytest.mark.parametrize("text", ["{}\n{}\n", "T-0\t{1}\nH-0\t-1\t{0}\nT-1\t{2}\n"])
def test_a_baseline_may_be_a_pipe(text, files, as_json):
    pipe, end = os.pipe()
    os.write(end, text.format(TOKENIZED.references[1], *TOKENIZED.references).encode())
    os.close(end)
    assert as_json("bleu", [*files, "--baseline", f"/dev/fd/{pipe}"])["difference"] != 0
    os.close(pipe)


def test_the_log_of_fairseq_generate_names_the_language(write, as_json):
    log = "2026 | INFO | fairseq.tasks.translation | "
    lines = [f"{log}[de] dictionary: 8 types", f"{log}[fr] dictionary: 9 types"]
    lines += ["T-0\tl&apos; eau , oui .", "H-0\t-1\tl&apos; eau .", "D-0\t-1\tl&apos; eau ."]
    result = as_json("bleu", ["--generated", write("generate-test.txt", lines)])
    assert result["warnings"] == []
    assert result["bleu"] == sacrebleu.corpus_bleu(["l'eau."], [["l'eau, oui."]]).score
