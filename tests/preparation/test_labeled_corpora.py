"""Labeled data sets in their published forms, and their malformed rows."""

import io
import json
from argparse import Namespace
from collections import Counter
from pathlib import Path

import pytest
from archive_files import write_archive, write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import CLASSIFICATION, documents
from fairseq_posattn.preparation.kinds.classification import ClassificationPreparation
from fairseq_posattn.text import lines as text_lines

FLAGS = "cased", "phrases", "weighted_phrases", "fine", "train_on_dev", "released_form", "binary"
LONG = "1" * 5000
DEFAULTS = {"jobs": 1, "limit": None, "seed": 1, "valid_fraction": 0.5, "dest": Path()}
DEFAULTS |= {"template": None, "language_model": None, **dict.fromkeys(FLAGS, False)}


def options(**flags):
    return Namespace(**{**DEFAULTS, **flags})


@pytest.fixture
def read(tmp_path):
    """Read a data set of ``{file: content}``, or of an archive; return label, texts and score."""

    def read(name, files, split=None, **flags):
        source = write_folder(tmp_path, files) if isinstance(files, dict) else files
        readers = CLASSIFICATION[name].read(open_archive(source), options(**flags))
        examples = readers[split or ("train" if "train" in readers else "all")]()
        return [
            (example.label, *example.inputs, *([] if example.score is None else [example.score]))
            for example in examples
        ]

    return read


SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
TREC = {
    "train_5500.label": "DESC:manner How ?\nLOC:city A sister\xf0city ?\n".encode("iso-8859-1"),
    "TREC_10.label": "HUM:ind Who ?\n",
}
DIGITS = {"train.txt": "0 How ?\n5 How many ?\n", "test.txt": "3 Who ?\n"}
SICK_OF_SEMEVAL = {
    "SICK_train.txt": f"{SICK}1\tA kid plays\tA child plays\t4.5\tENTAILMENT\n",
    "SICK_trial.txt": f"{SICK}2\tA dog\tA cat\t2\tNEUTRAL\n",
    "SICK_test_annotated.txt": f"{SICK}3\tA dog\tNo dog\t3.3\tCONTRADICTION\r\n",
}
SICK_IN_ONE_FILE = {
    "SICK.txt": "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\t"
    "SemEval_set\n"
    "1\tA kid\tA child\tENTAILMENT\t4.5\tTRAIN\n"
    "2\tA dog\tA cat\tNEUTRAL\t2.0\tTEST\n"
    "3\tA cow\tA cat\tNEUTRAL\t1.0\tTRIAL\n",
    "readme.txt": "",
}
AG_NEWS = {
    "ag_news_csv/classes.txt": "World\nSports\nBusiness\nSci/Tech\n",
    "ag_news_csv/train.csv": '"3","Wall St. ""Bears""","Short, sellers"\n"1","Oil\nis","Up"\n',
    "ag_news_csv/test.csv": '"4","A chip","Small"\n',
}
YAHOO = {"train.csv": '"10","why ?","","because"\n', "test.csv": '"1","","",""\n'}
POLARITY = {
    "data/customerr/custrev.pos": "good .\n",
    "data/customerr/custrev.neg": "bad .\nworse .\n",
    "data/subj/subj.subjective": "a gem .\n",
    "data/subj/subj.objective": "he walks .\n",
}
QUOTES = "a gem \u2013 d\xe9j\xe0 vu .\n".encode("cp1252")
CORNELL = {"quote.tok.gt9.5000": QUOTES, "plot.tok.gt9.5000": b"he walks .\n"}
NUMBERS = {"custrev.all": "0 bad .\n1 d\xe9j\xe0 vu .\n1 \n"}


@pytest.mark.parametrize(
    ("name", "files", "split", "expected"),
    [
        ("trec", TREC, "train", [("DESC", "How ?"), ("LOC", "A sister\xf0city ?")]),
        ("trec", DIGITS, "train", [("DESC", "How ?"), ("NUM", "How many ?")]),
        ("sick", SICK_OF_SEMEVAL, "train", [("ENTAILMENT", "A kid plays", "A child plays", 4.5)]),
        ("sick", SICK_OF_SEMEVAL, "valid", [("NEUTRAL", "A dog", "A cat", 2.0)]),
        ("sick", SICK_OF_SEMEVAL, "test", [("CONTRADICTION", "A dog", "No dog", 3.3)]),
        ("sick", SICK_IN_ONE_FILE, "train", [("ENTAILMENT", "A kid", "A child", 4.5)]),
        ("sick", SICK_IN_ONE_FILE, "valid", [("NEUTRAL", "A cow", "A cat", 1.0)]),
        ("sick", SICK_IN_ONE_FILE, "test", [("NEUTRAL", "A dog", "A cat", 2.0)]),
        ("ag_news", AG_NEWS, "train",
         [("Business", 'Wall St. "Bears" Short, sellers'), ("World", "Oil\nis Up")]),
        ("ag_news", {"train.txt": "3\t  wall st  bears \n", "test.txt": "1\tx\n"}, "train",
         [("Business", "  wall st  bears ")]),
        ("yahoo_answers", YAHOO, "train", [("Politics_&_Government", "why ?  because")]),
        ("cr", POLARITY, "all",
         [("negative", "bad ."), ("negative", "worse ."), ("positive", "good .")]),
        ("subj", POLARITY, "all", [("subjective", "a gem ."), ("objective", "he walks .")]),
        ("subj", CORNELL, "all",
         [("subjective", "a gem \u2013 d\xe9j\xe0 vu ."), ("objective", "he walks .")]),
        ("cr", NUMBERS, "all",
         [("negative", "bad ."), ("positive", "d\xe9j\xe0 vu ."), ("positive", "")]),
    ],
)  # fmt: skip
def test_all_published_layouts_are_read(read, tmp_path, name, files, split, expected):
    assert read(name, write_archive(tmp_path / "packed.tgz", files), split) == expected


def test_missing_files_are_named(read):
    with pytest.raises(UsageError, match="holds neither mpqa.neg and mpqa.pos or mpqa.all"):
        read("mpqa", {"mpqa.pos": "x"})


def test_trec_has_fine_classes_unless_it_is_in_digits(read):
    with pytest.raises(UsageError, match="train.txt:1: '0' names no fine class; remove --fine"):
        read("trec", DIGITS, fine=True)
    assert [row[0] for row in read("trec", TREC, fine=True)] == ["DESC:manner", "LOC:city"]


def review(rating, text):
    return (
        f"<review>\n<unique_id>\nB0:x\n</unique_id>\n<rating>\n{rating}\n</rating>\n"
        f"<title>\nA title\n</title>\n<review_text>\n{text}\n</review_text>\n</review>\n"
    )


def test_amazon_is_read_from_pseudo_xml(read, tmp_path):
    folder = "sorted_data_acl/electronics"
    files = {
        "sorted_data_acl/books/positive.review": review("5.0", "A book"),
        f"{folder}/positive.review": review("4.0", "Good &amp; <cheap>\n\nYes"),
        f"{folder}/negative.review": review("1.0", "Bad"),
        f"{folder}/unlabeled.review": review("3.0", "None"),
    }
    archive = write_archive(tmp_path / "domain_sentiment_data.tar.gz", files)
    expected = [("1", "Bad", 1.0), ("4", "Good & <cheap>\n\nYes", 4.0)]
    assert read("amazon_electronics", archive) == expected
    labels = [row[0] for row in read("amazon_electronics", archive, binary=True)]
    assert labels == ["negative", "positive"]


def test_amazon_draws_reviews_by_seed(read, tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "DRAWN", 5)
    lines = [json.dumps({"overall": 1.0 + i % 5, "reviewText": f"review {i}"}) for i in range(40)]
    path = tmp_path / "reviews_Electronics_5.json.gz"
    write_archive(path, {"reviews_Electronics_5.json": "\n".join(lines)})
    drawn, again, other = (read("amazon_electronics", path, seed=seed) for seed in (3, 3, 4))
    assert len(drawn) == 5 and drawn == again != other
    numbers = [int(text.split()[1]) for _, text, _ in drawn]
    assert numbers == sorted(set(numbers))
    assert [score for *_, score in drawn] == [1.0 + number % 5 for number in numbers]


GOOD = "(4 (2 It) (4 (3 really) (4 (4 works) (2 .))))"
BAD = "(0 (2 it) (1 (1 fails) (2 .)))"
NEUTRAL = "(2 (2 A) (2 film))"


def trees(*trees):
    return {"trees/train.txt": "".join(f"{tree}\n" for tree in trees)}


def test_sst_has_five_classes_or_two_without_neutral(read):
    sentences = [("very_positive", "It really works ."), ("very_negative", "it fails .")]
    assert read("sst5", trees(GOOD, BAD, NEUTRAL)) == [*sentences, ("neutral", "A film")]
    two = [(label.removeprefix("very_"), text) for label, text in sentences]
    assert read("sst2", trees(GOOD, BAD, NEUTRAL)) == two


def test_sst_has_each_phrase_once_for_each_class(read):
    files = trees("(4 (2 It) (3 works))", "(2 (2 it) (4 works))")
    expected = [("very_positive", "It works"), ("neutral", "It"), ("positive", "works")]
    expected += [("neutral", "it works"), ("very_positive", "works")]
    assert read("sst5", files, phrases=True) == expected
    cased = read("sst5", files, phrases=True, cased=True)
    assert cased == [*expected[:4], ("neutral", "it"), expected[4]]
    repeated = read("sst5", trees(BAD, BAD), phrases=True)
    assert repeated.count(("very_negative", "it fails .")) == 2


def test_sst_weights_phrases_like_the_released_code(read):
    files = trees("(4 (2 It) (3 works))", "(2 (2 It) (4 works))")
    assert Counter(read("sst5", files, weighted_phrases=True)) == {
        ("very_positive", "It works"): 4,
        ("neutral", "It"): 2,
        ("positive", "works"): 4,
        ("neutral", "It works"): 4,  # a sentence
        ("very_positive", "works"): 4,
    }
    two = Counter(read("sst2", files, weighted_phrases=True))
    assert two == {("positive", "It works"): 1, ("positive", "works"): 2}


def pair(label="neutral", first="( a )", second="( b )"):
    keys = ("gold_label", "sentence1_binary_parse", "sentence2_binary_parse")
    return json.dumps(dict(zip(keys, (label, first, second), strict=True))) + "\n"


def separate(part, labels, first, second):
    return {f"labels.{part}": labels, f"s1.{part}": first, f"s2.{part}": second}


def test_nli_words_are_the_leaves_of_the_parses(read, tmp_path):
    parses = ("( ( A dog ) ( runs . ) )", "( It ( is -LRB- big -RRB- ) )")
    rows = pair("neutral", *parses) + pair("-")
    files = {f"snli_1.0/snli_1.0_{part}.jsonl": rows for part in ("train", "dev", "test")}
    archive = write_archive(tmp_path / "snli_1.0.zip", files)
    expected = [("neutral", "A dog runs .", "It is -LRB- big -RRB-"), (None, "a", "b")]
    for split in ("train", "valid", "test"):  # the second is without agreement
        assert read("snli", archive, split) == expected


def test_multinli_validates_on_matched_and_tests_on_mismatched(read):
    labels = {"train": "neutral", "dev_matched": "entailment", "dev_mismatched": "contradiction"}
    files = {f"multinli_1.0_{part}.jsonl": pair(label) for part, label in labels.items()}
    assert read("multinli", files, "valid") == [("entailment", "a", "b")]
    assert read("multinli", files, "test") == [("contradiction", "a", "b")]


def test_snli_in_separate_files_may_train_on_the_development_set(read):
    files = separate("dev", "neutral", "A dog .\n", "It .\n")
    files |= separate("test", "-", "A dog .\n", "It .\n")
    assert read("snli", files, train_on_dev=True) == [("neutral", "A dog .", "It .")]
    assert read("snli", files, "test", train_on_dev=True) == [(None, "A dog .", "It .")]
    with pytest.raises(UsageError, match="holds no labels.train"):
        read("snli", files)


def test_snli_in_released_form_drops_the_longest_training_sentences(read):
    """Check that a hyphenated word counts as three, like in the released code."""
    firsts, files = "\n".join(["a b"] * 48 + ["a b c", "a-b c"]), {}
    for part in ("train", "dev", "test"):
        files |= separate(part, "neutral\n" * 50, firsts, "a\n" * 50)

    def firsts_of(split, **flags):
        return {first for _, first, _ in read("snli", files, split, released_form=True, **flags)}

    assert firsts_of("train") == {"a b"}  # 98 of 100 sentences; 97 are too few for "a b c"
    assert firsts_of("train", train_on_dev=True) == {"a b"}
    assert firsts_of("valid") == firsts_of("test") == {"a b", "a b c", "a-b c"}


SNLI, AMAZON = "snli_1.0_train.jsonl", "reviews_Electronics_5.json"
XML = "electronics/positive.review"
RATED = '{"overall": 5.0, "reviewText": %s}'


# data set, file, row or rows, line, words of the message
ROWS = [
    ("trec", "train_5500.label", "LOC:city Where ?\nNOPE:x did ?", 2, "'NOPE' is none of DESC"),
    ("trec", "train.txt", f"{LONG} text", 1, "111... is none of 0, 1"),
    ("trec", "train.txt", "\u00b2 t".encode("iso-8859-1"), 1, "'\u00b2' is none of DESC"),
    ("sick", "SICK_train.txt", f"{SICK}2\tA dog\tA cat\t2", 2, "4 fields, but 5 columns"),
    ("sick", "SICK_train.txt", f"{SICK}2\tA\tB\tnan\tNEUTRAL", 2, "'nan' is not a number from 1"),
    ("sick", "SICK_train.txt", f"{SICK}2\tA\tB\t3\tMAYBE", 2, "'MAYBE' is none of CONTRADICTION"),
    ("sick", "SICK_train.txt", "sentence_A", 1, "columns entailment_judgment, relatedness_score,"),
    ("ag_news", "train.csv", '"1","a\nb"\n"x","a","b"', 3, "'x' is none of 1, 2, 3, 4"),
    ("ag_news", "train.csv", '"1"', 1, "a row without a text"),
    ("ag_news", "train.csv", '"1","a","b"\n"1","a","b', 2, "not in CSV format"),
    ("cr", "custrev.all", "1 good .\nbad .", 2, "'bad' is none of 0, 1"),
    ("amazon_electronics", XML, review("4.5", "x"), 1, "'4.5' is none of 1, 2, 3, 4"),
    ("amazon_electronics", XML, "<review>\n</review>", 1, "a review without <review_text>"),
    ("amazon_electronics", AMAZON, RATED % "null", 1, "the text is None, no text"),
    ("amazon_electronics", AMAZON, RATED % r'"\udfff"', 1, "holds '\\udfff', half"),
    ("amazon_electronics", AMAZON, "[" * 100_000, 1, "no review in JSON format"),
    ("sst5", "trees/train.txt", f"{GOOD}\n(3 (2 It) (4 works)", 2, "not a labeled tree"),
    ("sst5", "trees/train.txt", "(3 (2 It) (4 works)) (2 .)", 1, "not a labeled tree"),
    ("sst5", "trees/train.txt", "(2 " * 6000, 1, "a tree of more than 5,000"),
    ("snli", SNLI, f"{pair()}no json", 2, "no pair in JSON format"),
    ("snli", SNLI, '{"gold_label": "neutral"}', 1, "no pair in JSON format: 'sentence1_binary"),
    ("snli", SNLI, "[" * 100_000, 1, "no pair in JSON format"),
    ("snli", SNLI, pair("maybe"), 1, "'maybe' is none of contradiction, neutral, entailment"),
    ("snli", SNLI, pair(first=None), 1, "a parse is None, no text"),
    ("snli", SNLI, pair(first="( a\ud800 )"), 1, "a parse holds '\\ud800', half"),
]


@pytest.mark.parametrize(("name", "file", "rows", "line", "words"), ROWS)
def test_a_malformed_row_gives_a_one_line_error(tmp_path, name, file, rows, line, words):
    source = write_folder(tmp_path / "source", {file: rows})
    others = {"snli": "snli_1.0_dev.jsonl", "sick": "SICK_trial.txt"}
    others["trec"] = "test.txt" if file == "train.txt" else "TREC_10.label"
    if name in others:
        (source / others[name]).write_bytes(b"")
    corpus = CLASSIFICATION[name]
    readers = corpus.read(open_archive(source), options())
    with pytest.raises(UsageError) as caught:
        chosen = {"train": readers.get("train") or readers["all"]}
        ClassificationPreparation(corpus, options()).write_text(chosen, tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{source}/{file}:{line}: ") and words in message
    assert "\n" not in message and len(message) < 2 * len(str(source)) + 300
    assert not list(tmp_path.rglob("text/train.*"))  # nothing half-written


def test_lines_and_csv_fields_have_a_maximum_length(read, monkeypatch):
    monkeypatch.setattr(text_lines, "LONGEST", 1 << 10)
    files = {"train.csv": '"1","a\n' + "more\n" * 1000, "test.csv": "x"}
    with pytest.raises(UsageError, match=r"train.csv:\d+: not in CSV format: field larger than"):
        read("ag_news", files)
    monkeypatch.setattr(text_lines, "LONGEST", 10)
    lines = text_lines.read_lines(io.BytesIO(b"123456789\n12345678901\n"), "text")
    assert next(lines) == "123456789"
    with pytest.raises(UsageError, match="text:2: a line of more than"):
        next(lines)
