"""SNLI and MultiNLI: JSON lines with parses, and SNLI as separate files."""

import json

import pytest
from archive_files import write_archive, write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import nli


def pair(label, first, second):
    keys = ("gold_label", "sentence1_binary_parse", "sentence2_binary_parse")
    return json.dumps(dict(zip(keys, (label, first, second), strict=True))) + "\n"


PAIR = pair("neutral", "( ( A dog ) ( runs . ) )", "( It ( is -LRB- big -RRB- ) )")


def read(splits, split="train"):
    return [(example.label, example.inputs) for example in splits[split]()]


def test_words_are_the_leaves_of_the_parses(tmp_path):
    files = {f"snli_1.0/{name}": PAIR for name in nli.SNLI_FILES.values()}
    splits = nli.snli_splits(open_archive(write_archive(tmp_path / "snli_1.0.zip", files)))
    assert read(splits) == [("neutral", ("A dog runs .", "It is -LRB- big -RRB-"))]
    assert list(splits) == ["train", "valid", "test"]


def test_pairs_without_agreement_have_no_class(tmp_path):
    lines = PAIR + pair("-", "( A dog )", "( A cat )")
    write_folder(tmp_path, dict.fromkeys(nli.SNLI_FILES.values(), lines))
    splits = nli.snli_splits(open_archive(tmp_path))
    assert [label for label, _ in read(splits)] == ["neutral", None]


def test_multinli_validates_on_matched_and_tests_on_mismatched(tmp_path):
    files = {
        "multinli_1.0/multinli_1.0_train.jsonl": PAIR,
        "multinli_1.0/multinli_1.0_dev_matched.jsonl": pair("entailment", "( a )", "( b )"),
        "multinli_1.0/multinli_1.0_dev_mismatched.jsonl": pair("contradiction", "( a )", "( b )"),
    }
    archive = open_archive(write_archive(tmp_path / "multinli_1.0.zip", files))
    splits = nli.json_splits(archive, nli.MULTINLI_FILES)
    assert read(splits, "valid") == [("entailment", ("a", "b"))]
    assert read(splits, "test") == [("contradiction", ("a", "b"))]


def test_separate_files_and_training_on_the_development_set(tmp_path):
    for ending, label in (("dev", "neutral"), ("test", "-")):
        write_folder(
            tmp_path,
            {f"s1.{ending}": "A dog .\n", f"s2.{ending}": "It .\n", f"labels.{ending}": label},
        )
    splits = nli.snli_splits(open_archive(tmp_path), train_on_dev=True)
    assert read(splits) == [("neutral", ("A dog .", "It ."))]
    assert read(splits, "test") == [(None, ("A dog .", "It ."))]
    with pytest.raises(UsageError, match="holds no labels.train"):
        read(nli.snli_splits(open_archive(tmp_path)))


def test_the_released_form_trains_without_the_longest_sentences(tmp_path):
    """A word with a mark within counts as three, as the released code splits it."""
    for ending in ("train", "dev", "test"):
        firsts = ["a b"] * 48 + ["a b c", "a-b c"]
        files = {f"s1.{ending}": "\n".join(firsts), f"s2.{ending}": "a\n" * 50}
        write_folder(tmp_path, {**files, f"labels.{ending}": "neutral\n" * 50})
    archive = open_archive(tmp_path)
    kept = {
        split: {
            first for _, (first, _) in read(nli.snli_splits(archive, released_form=True), split)
        }
        for split in ("train", "valid", "test")
    }
    assert kept.pop("train") == {"a b"}  # 98 of the 100 sentences; 97 are too few for "a b c"
    assert set(map(frozenset, kept.values())) == {frozenset({"a b", "a b c", "a-b c"})}
    both = nli.snli_splits(archive, train_on_dev=True, released_form=True)
    assert {first for _, (first, _) in read(both)} == {"a b"}


def test_files_of_unequal_length_are_told(tmp_path):
    files = {"s1.test": "a\nb\n", "s2.test": "c\n", "labels.test": "neutral\nneutral\n"}
    write_folder(tmp_path, files)
    with pytest.raises(UsageError, match="labels.test has 2, .*s1.test has 2, .*s2.test has 1"):
        read(nli.snli_splits(open_archive(tmp_path)), "test")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("no json\n", "no pair in JSON format"),
        ('{"gold_label": "neutral"}\n', "no pair in JSON format: 'sentence1_binary_parse'"),
        ("[]\n", "no pair in JSON format"),
        (pair("maybe", "( a )", "( b )"), "'maybe' is none of contradiction, neutral, entailment"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, told):
    write_folder(tmp_path, {"snli_1.0_train.jsonl": PAIR + line})
    with pytest.raises(UsageError) as error:
        read(nli.snli_splits(open_archive(tmp_path)))
    assert str(error.value).startswith(f"{tmp_path}/snli_1.0_train.jsonl:2: {told}")
