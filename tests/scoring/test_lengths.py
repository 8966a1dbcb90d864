"""Scores by the length of the source: ``posattn score bleu|rouge --by-length``."""

from dataclasses import replace

import pytest
import sacrebleu

from fairseq_posattn.scoring.commands.score import score as run
from fairseq_posattn.scoring.lengths import length_of, statistics
from fairseq_posattn.scoring.result import metric_of, read_statistics
from fairseq_posattn.scoring.significance import Group, compare, of_sentences

pytestmark = pytest.mark.usefixtures("few_draws")

SOURCES = ["a b c", "a b c d e", "a b c d", "a " * 12]
REFERENCES = ["one two three four", "the cat sat on a mat", "it is so late", "far " * 9 + "away ."]
HYPOTHESES = ["one two three", "the cat sat on a mat", "it was so late now", "far " * 8 + "away ."]
WORSE = ["one", "the dog sat on a mat", "it was late now", "far away ."]


@pytest.fixture
def files(write):
    """Return ``files(baseline=True)``: options that name the texts."""
    texts = {"--hypotheses": HYPOTHESES, "--references": REFERENCES, "--sources": SOURCES}

    def files(**more):
        named = {**texts, **{f"--{name}": lines for name, lines in more.items()}}
        return [word for name, lines in named.items() for word in (name, write(name[2:], lines))]

    return files


@pytest.mark.parametrize(
    "line, length",
    [
        *[("", 0), (" two  words ", 2), ("well-known, it's", 2), ("我爱北京。", 5)],
        *[("ใหม่ new", 4), ("ខ្ញុំ\u200bទៅ", 3), ("རྩ་ལག་འགོ་ བཙུགས་སམ", 5), ("ሰው፡ሁሉ፡", 2)],
        *[("ꊿꂷꃅꄿ，ꌅꅍ", 7), ("ꦧꦱꦗꦮ", 4), ("ᬩᬲᬩᬮᬶ new", 5)],
    ],
)
def test_words_are_counted_or_letters_in_scripts_without_spaces(line, length):
    assert length_of(line) == length


def test_each_range_is_scored_by_itself(files, as_json, tmp_path):
    kept = tmp_path / "statistics.json"
    words = [*files(), "--language", "en", "--by-length", "3,5,9", "--statistics", str(kept)]
    by_length = as_json("bleu", words)["by_length"]
    assert by_length["lengths_of"] == "source"
    buckets = {bucket["length"]: bucket for bucket in by_length["buckets"]}
    sentences = {"0 to 3": 1, "4 to 5": 2, "6 to 9": 0, "10 or more": 1}
    assert {name: bucket["sentences"] for name, bucket in buckets.items()} == sentences
    ratios = {name: bucket["length_ratio"] for name, bucket in buckets.items()}
    assert ratios == {"0 to 3": 3 / 4, "4 to 5": 11 / 10, "6 to 9": None, "10 or more": 10 / 11}
    middle = buckets["4 to 5"]["scores"]["bleu"]
    expected = sacrebleu.corpus_bleu(HYPOTHESES[1:3], [REFERENCES[1:3]])
    assert middle["score"] == pytest.approx(expected.score)
    assert middle["interval"][0] <= middle["score"] <= middle["interval"][1]
    chrf = sacrebleu.corpus_chrf(HYPOTHESES[1:3], [REFERENCES[1:3]])  # also a metric of recipes
    assert buckets["4 to 5"]["scores"]["chrf2"]["score"] == pytest.approx(chrf.score)
    assert buckets.pop("6 to 9")["scores"] == {}
    metrics = read_statistics(kept).metrics  # of all sentences, with the scores of the ranges
    for name, bucket in buckets.items():
        group = Group(metric_of(f"bleu {name}"), [metrics[f"bleu {name}"]])
        assert group.mean == pytest.approx(bucket["scores"]["bleu"]["score"])
        assert len(metrics[f"bleu {name}"]) == len(SOURCES)


def test_one_range_of_all_sentences_has_the_scores_and_tests_of_the_whole(files, as_json):
    whole = as_json("rouge", [*files(baseline=WORSE), "--by-length", "100"])
    first, empty = whole["by_length"]["buckets"]
    assert empty["sentences"] == 0 and empty["significance"] == {}
    for name in ("rouge1", "rouge2", "rougeL"):
        assert first["scores"][name]["score"] == pytest.approx(whole[name])
        assert first["scores"][name]["interval"] == whole["intervals"][name]
        for key in ("difference", "p", "p_randomisation"):
            assert first["significance"][name][key] == whole["significance"][name][key]
        assert first["significance"][name]["p_holm"] == first["significance"][name]["p"]


@pytest.mark.filterwarnings("error")
def test_stored_statistics_of_a_range_are_tested_as_its_sentences_alone():
    ours, theirs = (
        Group(metric_of("rouge1"), [of_sentences(run) for run in runs])
        for runs in ([[10, 20, 30, 40], [11, 22, 30, 42]], [[10, 20, 30, 45], [10, 21, 30, 43]])
    )
    (stored, baseline), (alone, other) = (
        [form(group) for group in (ours, theirs)]
        for form in (
            lambda group: statistics({"0 to 9": [3]}, {"rouge1": group})["rouge1 0 to 9"],
            lambda group: replace(group, runs=[run[3:] for run in group.runs]),
        )
    )
    assert stored.interval == alone.interval == (40, 42)
    tests = compare(stored, baseline), compare(alone, other)
    assert tests[0].interval == tests[1].interval and tests[0].p == tests[1].p


def test_without_sources_the_references_are_measured(files, capsys):
    words = files()[:4]
    assert run("rouge", [*words, "--by-length", "5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("") + 1 :]
    assert table[0].split()[:3] == ["reference", "length", "sentences"]
    rows = [line.split()[:4] for line in table[1:3]]
    assert rows == [["0", "to", "5", "2"], ["6", "or", "more", "2"]]


def test_sources_of_generated_text_are_measured_without_their_marks(write, as_json):
    lines = [
        f"{kind}-{number}\t{score}{text}"
        for number, (source, target) in enumerate([("ei@@ ns", "one"), ("zwei drei vier", "two")])
        for kind, score, text in (("S", "", source), ("T", "", target), ("H", "-1\t", target))
    ]
    arguments = ["--generated", write("generated", lines), "--by-length", "1,2"]
    by_length = as_json("bleu", [*arguments, "--language", "en"])["by_length"]
    assert by_length["lengths_of"] == "source"
    assert [bucket["sentences"] for bucket in by_length["buckets"]] == [1, 0, 1]


def test_p_of_several_ranges_is_corrected_and_drawn(files, write, tmp_path, capsys):
    picture = tmp_path / "lengths.png"
    words = [*files(baseline=WORSE), "--by-length", "4", "--jobs", "1"]
    assert run("rouge", [*words, "--plot", str(picture)]) == 0
    table = capsys.readouterr().out.splitlines()[-4:-1]
    assert table[0].split()[-3:] == ["difference", "p", "(Holm)"]
    for line in table[1:]:
        p, holm = line.split()[-2:]
        assert float(p) < float(holm.strip("()")) <= 1 or float(p) == 1
    assert picture.read_bytes().startswith(b"\x89PNG")
