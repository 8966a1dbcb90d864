"""The Stanford Sentiment Treebank: trees to sentences and phrases."""

from collections import Counter

import pytest
from archive_files import write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora import sst

GOOD = "(4 (2 It) (4 (3 really) (4 (4 works) (2 .))))"
BAD = "(0 (2 it) (1 (1 fails) (2 .)))"
NEUTRAL = "(2 (2 A) (2 film))"


@pytest.fixture
def read(tmp_path):
    """The examples of a training set of given trees."""

    def read(*trees, names="sst5", **options):
        write_folder(tmp_path, {"trees/train.txt": "".join(f"{tree}\n" for tree in trees)})
        splits = sst.splits(open_archive(tmp_path), sst.NAMES[names], **options)
        return [(example.label, *example.inputs) for example in splits["train"]()]

    return read


def test_every_node_is_a_phrase_parents_before_children():
    assert sst.labelled_phrases(GOOD, "") == [
        (4, "It really works ."),
        (2, "It"),
        (4, "really works ."),
        (3, "really"),
        (4, "works ."),
        (4, "works"),
        (2, "."),
    ]


def test_sentences_have_five_classes(read):
    assert read(GOOD, BAD, NEUTRAL) == [
        ("very_positive", "It really works ."),
        ("very_negative", "it fails ."),
        ("neutral", "A film"),
    ]


def test_two_classes_leave_out_what_is_neutral(read):
    assert read(GOOD, BAD, NEUTRAL, names="sst2") == [
        ("positive", "It really works ."),
        ("negative", "it fails ."),
    ]


def test_a_phrase_is_there_once_for_each_of_its_classes(read):
    again = "(3 (2 it) (3 (3 works) (2 .)))"
    assert read(GOOD, again, phrases=True) == [
        ("very_positive", "It really works ."),
        ("neutral", "It"),
        ("very_positive", "really works ."),
        ("positive", "really"),
        ("very_positive", "works ."),
        ("very_positive", "works"),
        ("neutral", "."),
        ("positive", "it works ."),
        ("positive", "works ."),
        ("positive", "works"),
    ]
    assert ("neutral", "it") in read(GOOD, again, phrases=True, cased=True)


def test_phrases_of_two_classes_do_not_repeat_what_had_two_shades(read):
    again = "(3 (2 it) (3 (3 works) (2 .)))"
    phrases = read(GOOD, again, names="sst2", phrases=True)
    assert phrases.count(("positive", "works")) == 1
    assert len(phrases) == 6


def test_a_sentence_that_occurs_twice_stays_twice(read):
    assert read(BAD, BAD, phrases=True).count(("very_negative", "it fails .")) == 2


def test_weighted_phrases_are_as_often_as_in_the_published_code(read):
    again = "(2 (2 it) (3 (3 works) (2 .)))"
    assert Counter(read(GOOD, again, weighted=True)) == {
        ("very_positive", "It really works ."): 4,
        ("neutral", "It"): 1,
        ("very_positive", "really works ."): 4,
        ("positive", "really"): 4,
        ("very_positive", "works ."): 4,
        ("very_positive", "works"): 4,
        ("neutral", "."): 2,
        ("neutral", "it works ."): 4,  # a sentence
        ("neutral", "it"): 1,
        ("positive", "works ."): 4,
        ("positive", "works"): 4,
    }
    assert Counter(read(GOOD, again, names="sst2", weighted=True)) == {
        ("positive", "It really works ."): 1,
        ("positive", "really works ."): 1,
        ("positive", "really"): 1,
        ("positive", "works ."): 2,
        ("positive", "works"): 2,
    }


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ("(3 (2 It) (4 works)", "before its brackets are closed"),
        ("(3 (2 It) (4 works)) (2 .)", "more on the line"),
        ("(5 (2 It) (4 works))", "'5' stands where a class"),
        ("(01 It)", "'01' stands where a class"),
        ("((2 It) (4 works))", "'(' stands where a class"),
        ("(3 (2 It) (4))", "no words"),
        ("It works", "not a labelled tree"),
        ("", "before its brackets are closed"),
    ],
)
def test_what_is_no_tree_is_named_with_its_line(read, tmp_path, tree, told):
    with pytest.raises(UsageError) as error:
        read(GOOD, tree)
    assert str(error.value).startswith(f"{tmp_path}/trees/train.txt:2: ")
    assert told in str(error.value)
