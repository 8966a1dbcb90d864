import json
import os
import stat
import sys
from pathlib import Path
from statistics import fmean

import pytest

from fairseq_posattn.scoring.commands.score import score as run
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.rouge import (
    Tokenizer,
    document_sentences,
    ignored_share,
    rouge_by_files2rouge,
    rouge_of_each,
    sentences,
    stemmer,
)
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.manifest import write as write_manifest

pytest.importorskip("rouge_score")
pytestmark = pytest.mark.usefixtures("few_draws")

# Summaries that stemmers take apart differently, and their F1 as ROUGE-1.5.5.pl -a -n 2 prints it,
# with its exception lists of WordNet 2.0: of ROUGE-1, 2 and L, without -m ("plain") and with it.
ROUGE_155 = [
    json.loads(line)
    for line in (Path(__file__).parent / "rouge_155.jsonl").read_text().splitlines()
]


def rouge(pairs, **options):
    """Return the means over all summaries."""
    return {name: fmean(each) for name, each in rouge_of_each(pairs, **options).items()}


def f1(matches, hypothesis, reference):
    precision, recall = matches / max(hypothesis, 1), matches / max(reference, 1)
    return 100 * 2 * precision * recall / max(precision + recall, 1e-9)


@pytest.fixture
def result_of(write, as_json):
    """Return ``result_of(hypothesis, reference, ...)``: the command's result of a summary."""

    def result_of(hypothesis, reference, *options):
        files = ["--hypotheses", write("hyp", [hypothesis])]
        files += ["--references", write("ref", [reference])]
        return as_json("rouge", [*files, "--jobs", "1", *options])

    return result_of


def test_sentences_end_like_in_files2rouge():
    assert sentences("a b . c d . e.g. f .") == ["a b", "c d", "e.g. f"]
    assert sentences("a . b <q> c <q>", eos="<q>") == ["a . b", "c"]
    assert sentences("") == []


def test_rouge_1_and_2_equal_a_count_by_hand():
    # tokens: "the", "cat", "sat", "down" and "the", "cat", "lay", "down"
    scores = rouge(Pairs(["The cat sat down ."], ["the CAT lay - down !"]))
    assert list(scores.values()) == pytest.approx([f1(3, 4, 4), f1(1, 3, 3), f1(3, 4, 4)])
    # In ROUGE-1.5.5, a letter outside ASCII separates words.
    assert rouge(Pairs(["na\u00efve \u0130ota 10,000"], ["NA VE ota 000 10"]))["rouge1"] == 100
    scores = rouge(Pairs(["a b", ""], ["a b", "c d"]))  # an empty summary counts as 0
    assert scores == {"rouge1": 50, "rouge2": 50, "rougeL": 50}


SUMMARIES = {
    "Chinese": ("今天天气很好。他去北京了。", "狗咬人！"),
    "Japanese": ("東京は今日、サッカーの日です。", "ねこがいる"),
    "Korean": ("오늘 날씨가 좋습니다", "고양이가 있다"),
    "Thai": ("วันนี้อากาศดี", "หมูโต"),
    "Khmer": ("ថ្ងៃនេះអាកាសធាតុល្អ", "ឆ្មា"),
    "Lao": ("ມື້ນີ້ອາກາດດີ", "ແມວ"),
    "Burmese": ("ယနေ့ရာသီဥတုကောင်းသည်။", "ခွေး"),
    "Yi": ("ꊿꂷꃅꄿꐨꐥ，ꌅꅍꀂꏽꐯꒈ", "ꇉꌋ"),
    "Javanese": ("ꦲꦏ꧀ꦱꦫꦗꦮ", "ꦢꦺꦴꦤꦁ"),
    "Tibetan": ("དེ་རིང་གནམ་གཤིས་ཡག་པོ་འདུག", "ཞི་མི"),
    "Amharic": ("ዛሬ አየሩ ጥሩ ነው።", "ድመት ተኛች"),
    "Russian": ("Сегодня хорошая погода.", "Кот спит"),
    "Hindi": ("आज मौसम अच्छा है।", "बिल्ली सोती"),
    "Arabic": ("الطقس جميل اليوم؟", "قطة نائمة"),
    "Persian": ("امروز می‌خواهم بروم", "گربه خوابید"),
    "Yoruba": ("Ọjọ́ dára Ẹ káàárọ̀", "Kẹ́ bùrú káà"),
    "German": ("Häuser für Bürger. Äpfel über Öl.", "Mauser fur Burger. X fel ber l."),
}


@pytest.mark.parametrize("right, wrong", SUMMARIES.values(), ids=SUMMARIES)
def test_equal_summaries_score_100_and_others_0_in_every_script(right, wrong, result_of):
    assert {result_of(right, right)[name] for name in ("rouge1", "rouge2", "rougeL")} == {100}
    result = result_of(wrong, right)
    assert {result[name] for name in ("rouge1", "rouge2", "rougeL")} == {0}
    assert "|words:unicode|stem:no|" in result["signature"]


@pytest.mark.parametrize(
    "text, words",
    [
        ("STRASSE Straße, ΣΑΣ σας", ["strasse", "strasse", "σασ", "σασ"]),
        ("2021年に iPhone", ["2021", "年", "に", "iphone"]),
        ("น้ำ ดี", ["น้", "ำ", "ดี"]),
        ("می‌خواهم! \u200d ❤️", ["می‌خواهم"]),
        ("ᠬᠠᠷ\u180eᠠ ᠮᠣᠷᠢ᠃", ["ᠬᠠᠷ\u180eᠠ", "ᠮᠣᠷᠢ"]),
        (
            "\U0001d800\U0001da9b\U0001d801 \U0001d802\U0001da88",
            ["\U0001d800\U0001da9b\U0001d801", "\U0001d802"],
        ),
        ("\uf8d0\uf8d1 \uf8d2.", ["\uf8d0\uf8d1", "\uf8d2"]),
        ("क्षेत्र 한국어 l’eau", ["क्षेत्र", "한국어", "l", "eau"]),
    ],
)
def test_unicode_words_have_their_marks(text, words):
    assert Tokenizer("unicode", stemming=False).tokenize(text) == words
    assert Tokenizer("unicode", stemming=True).tokenize("Häuser houses") == ["häuser", "hous"]


def test_sentences_of_other_scripts_end_at_their_marks():
    text = "今天。他说：「走！」我走了"
    assert sentences(text, rule="unicode") == ["今天", "他说：「走", "我走了"]
    assert sentences(text) == [text] == sentences(text, "<q>", "unicode")
    assert document_sentences(text) == ["今天。", "他说：「走！」", "我走了"]
    # Two sentences in another order: as one, they have half of their words in order.
    swapped = Pairs(["三四。一二。"], ["一二。三四。"])
    assert rouge(swapped, rule="unicode")["rougeL"] == 100


def test_text_outside_the_domain_of_rouge_155_and_escapes_are_reported(result_of, write, capsys):
    texts = "Häuser für Bürger", "H user fur Burger"
    result = result_of(*texts, "--words", "rouge155")
    assert ignored_share(texts[:1]) == pytest.approx(3 / 15)
    assert result["rouge1"] > 0 and "|words:rouge155|stem:porter|" in result["signature"]
    ignored = "ROUGE-1.5.5's words ignore 20.0% of the letters of the hypotheses"
    assert result["warnings"] == [f"{ignored}; use --words unicode"]
    warnings = result_of("it &apos;s here .", "it is here .")["warnings"]
    assert "the text has escapes" in warnings[0]
    baseline = ["--baseline", write("other", ["it &apos;s here ."])]
    assert "the text has escapes" in result_of("it is", "it is here .", *baseline)["warnings"][0]
    english = "It was a day in the park with the whole family of the neighbours . " * 30
    for name in ("Munich", "München"):  # one letter of 1,500
        result = result_of("x", english + name)
        assert "|words:rouge155|stem:porter|" in result["signature"] and not result["warnings"]
    assert ignored_share(["a heart ❤\ufe0f", "1\ufe0f\u20e3"]) == 0  # no letters
    files = ["--hypotheses", write("a", ["é"]), "--references", write("b", ["é"])]
    assert score(files) == 0
    output = capsys.readouterr().out
    assert "ROUGE-1 (unicode words) 100.00" in output and "words: by Unicode, not stem" in output
    assert score([*files, "--words", "unicode", "--implementation", "files2rouge"]) == 1
    assert "files2rouge has none" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["plain", "stemmed"])
def test_each_summary_scores_like_rouge_155(name):
    for known in ROUGE_155:
        pairs = Pairs([known["hypothesis"]], [known["reference"]])
        result = rouge(pairs, stemming=name == "stemmed").values()
        expected = [100 * f1 for f1 in known[name]]
        assert list(result) == pytest.approx(expected, abs=0.0011), known["hypothesis"]


def test_suffixes_of_the_fourth_step_are_removed_one_after_another():
    words = ("internationally", "document", "settlement")
    assert list(map(stemmer(), words)) == ["internat", "docum", "settlem"]


def test_lead_takes_the_first_sentences(result_of):
    news = "Mr. Ball fell. Did he? He did! It rained."
    assert document_sentences(news) == ["Mr. Ball fell.", "Did he?", "He did!", "It rained."]
    assert document_sentences("a . b <q> c", "<q>") == ["a . b", "c"]
    assert document_sentences("") == []
    # References decide whether ROUGE-L divides sentences: those of plain text are one.
    for reference, eos in ("He did. Mr. Ball fell.", "."), ("He did <q> Mr. Ball fell", "<q>"):
        arguments = "Mr. Ball fell. He did.", reference, "--eos", eos
        whole = result_of(*arguments, "--lead", "2")
        assert "--lead 2: 1 of 1 texts have no more sentences" in whole["warnings"][0]
        assert whole["rougeL"] == (100 if eos == "<q>" else pytest.approx(60))
    assert result_of(news, "It rained.", "--lead", "1")["rouge1"] == 0


def test_rouge_l_is_the_union_over_sentences():
    # Lin (2004), section 3.2: w1 w2 w3 w4 w5 against w1 w2 w6 w7 w8 and w1 w3 w8 w9 w5.
    first, second = "w1 w2 w6 w7 w8 .", "w1 w3 w8 w9 w5 ."
    scores = rouge(Pairs([f"{first} {second}"], ["w1 w2 w3 w4 w5 ."]))
    assert scores["rougeL"] == pytest.approx(f1(4, 10, 5))
    # Taken for one sentence, the longest common subsequence is w1 w2 w3 w5, as long by chance;
    # with the sentences the other way round it is w1 w3 w5, and only the union has w2.
    swapped = Pairs([f"{second} {first}"], ["w1 w2 w3 w4 w5 ."])
    assert rouge(swapped)["rougeL"] == pytest.approx(f1(4, 10, 5))
    assert rouge(swapped, eos="<q>")["rougeL"] == pytest.approx(f1(3, 10, 5))
    repeated = ["a b . a c .", "a ."]  # each word counts once
    assert rouge(Pairs(repeated[:1], repeated[1:]))["rougeL"] == pytest.approx(f1(1, 4, 1))
    assert rouge(Pairs(repeated[1:], repeated[:1]))["rougeL"] == pytest.approx(f1(1, 1, 4))


def test_scores_do_not_depend_on_processes():
    hypotheses = [f"{i % 4} {i % 3} . {i % 2} ." for i in range(250)]
    pairs = Pairs(hypotheses, [f"{i % 2} {i % 4} . {i % 3} ." for i in range(250)])
    assert rouge_of_each(pairs, jobs=2) == rouge_of_each(pairs, jobs=1)


def score(arguments):
    return run("rouge", [*arguments, "--jobs", "1"])


@pytest.fixture
def generated(write):
    lines = ["T-1\t▁c ▁d", "T-0\t▁a ▁b", "H-0\t-1\t▁a ▁b", "D-0\t-1\t▁a ▁b"]
    return ["--generated", write("generate-test.txt", lines)]


def test_generated_output_is_scored(generated, capsys, as_json):
    result = as_json("rouge", [*generated, "--jobs", "1"])
    assert (result["rouge1"], result["rouge2"], result["rougeL"]) == (50, 50, 50)
    assert result["counts"] == {"scored": 2, "missing": 1, "empty": 0, "skipped": 0}
    assert result["signature"].startswith("rouge-score:")
    assert "|stem:porter|" in result["signature"]
    assert result["warnings"] == ["hypotheses: 1 is missing and scored as empty"]
    assert score([*generated, "--no-stemming"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # One of two summaries is right: a quarter of all draws have none, a quarter both.
    assert lines[:3] == [f"ROUGE-{name}  50.00 (0.00 to 100.00)" for name in "12L"]
    assert "|stem:no|" in lines[-2] and lines[-1] == "2 hypotheses, of which 1 is missing"


@pytest.mark.parametrize("kind", ["bleu", "rouge"])
def test_a_baseline_that_lacks_hypotheses_gives_a_warning(kind, generated, write, as_json):
    whole = write("whole", ["T-1\t▁c ▁d", "T-0\t▁a ▁b", "H-0\t-1\t▁a ▁b", "H-1\t-1\t▁c"])
    warnings = as_json(kind, ["--generated", whole, "--baseline", generated[1]])["warnings"]
    assert "baseline: hypotheses: 1 is missing and scored as empty" in warnings
    assert not [warning for warning in warnings if warning.startswith("hypotheses")]


# A stand-in with the command line of the real program: references come first, and it stems unless
# --no_stemming is given. It prints as ROUGE-1.5.5 does: as ROUGE-1 the number of the summaries'
# words, as ROUGE-2 that of the references', as ROUGE-L whether it stems.
FILES2ROUGE = f"""#!{sys.executable}
import sys
from pathlib import Path

reference, summary, eos, args, *stems = sys.argv[1:]
assert eos in ("--eos=<q>", "--eos=-") and stems in ([], ["--no_stemming"])
assert args == "--args=-c 95 -r 1000 -n 2 -a"
summary, reference = (Path(path).read_text() for path in (summary, reference))
assert "<" not in summary + reference  # at which it would end the sentence
print("1 ROUGE-1 Average_R: 0.99999 (95%-conf.int. 0.11111 - 0.99999)")
for name, number in (
    ("1", len(summary.split())), ("2", len(reference.split())), ("L", not stems)
):
    print(f"1 ROUGE-{{name}} Average_F: 0.{{number:d}}0000 (95%-conf.int. 0.11111 - 0.99999)")
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    def install(text):
        command = tmp_path / "files2rouge"
        command.write_text(text)
        command.chmod(command.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

    return install


@pytest.mark.parametrize(("eos", "stemming"), [("<q>", True), ("-", False)])
def test_files2rouge_is_run_if_installed(install, eos, stemming):
    install(FILES2ROUGE)
    pairs = Pairs(["a", "b <unk>"], ["c d e", "f g"])
    scores = rouge_by_files2rouge(pairs, eos=eos, stemming=stemming)
    assert scores == pytest.approx({"rouge1": 30, "rouge2": 50, "rougeL": 10 * stemming})


def test_a_failure_of_files2rouge_gives_a_one_line_error(install, generated, capsys, monkeypatch):
    install("#!/bin/sh\necho starting\necho no Perl here >&2\nexit 3\n")
    assert score([*generated, "--implementation", "files2rouge"]) == 1
    assert capsys.readouterr().err.endswith("error: files2rouge failed: no Perl here\n")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    assert score([*generated, "--implementation", "files2rouge"]) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "there is no command files2rouge" in error


def test_wordpiece_splits_sentences_alike_in_both_texts(result_of):
    # BERT splits "U.S." into "u . s .", at which ROUGE-L ends sentences.
    texts = ("on mon ##day the u . s . he left .", "He left the U.S. on Monday.")
    result = result_of(*texts, "--remove-bpe", "wordpiece")
    assert result["rougeL"] == 100  # both are "he left the u" and "s on monday", in other orders
    assert result["signature"].endswith("|split:punctuation")


def test_output_of_data_in_wordpiece_is_scored_by_words(tmp_path, write, as_json):
    write_manifest(tmp_path, Manifest("x", "translation", "text", subwords="wordpiece"))
    log = f"2026 | INFO | fairseq.tasks.translation | {tmp_path} test source-target 1 examples"
    output = write("out", [log, "T-0\tsun ##day", "H-0\t-1\tmon ##day"])
    baseline = write("baseline", ["sun ##day"])
    result = as_json("rouge", ["--generated", output, "--baseline", baseline, "--jobs", "1"])
    assert (result["rouge1"], result["baseline"]) == (0, 100)  # "##day" is no word
    assert result["signature"].endswith("|split:punctuation")


def test_data_in_wordpiece_is_compared_with_that_of_other_subwords(tmp_path, write, as_json):
    paths, texts = [], {"wordpiece": "mon ##day , u . s .", "subword_nmt": "mon@@ day, u.s."}
    for kind, text in texts.items():
        (tmp_path / kind).mkdir()
        write_manifest(tmp_path / kind, Manifest("x", "translation", "text", subwords=kind))
        log = f"2026 | INFO | fairseq.tasks.translation | {tmp_path / kind} test a-b 1 examples"
        paths.append(write(f"{kind}.out", [log, f"H-0\t-1\t{text}"]))
    options = ["--references", write("reference", ["monday, u.s."]), "--jobs", "1"]
    for ours, theirs in (paths, paths[::-1]):
        result = as_json("rouge", ["--generated", ours, "--baseline", theirs, *options])
        assert (result["rouge2"], result["baseline"]) == (100, 100)
