"""Tokenization rules, sentence splitting, and dictionaries of words."""

from collections import Counter

import pytest
from fairseq.data import Dictionary

from fairseq_posattn.text.vocabulary import choose_words, write_dictionary
from fairseq_posattn.text.words import PUBLISHED, RULES, plain_text, split_sentences


@pytest.mark.parametrize(
    ("rule", "text", "words"),
    [
        ("treebank", "It 's -LRB- really -RRB- good\\/bad 3\\*", "It 's ( really ) good/bad 3*"),
        ("treebank", "``  Yes ,  '' n't", "`` Yes , '' n't"),
        ("treebank", "8\xa01/2 shan 't", "8 1/2 sha n't"),
        (
            "treebank-split",
            "a well-known 50/50 `` dog 's -LRB- 9 \N{DEGREE SIGN} -RRB-",
            "a well - known 50 / 50 `` dog ' s ( 9 \N{DEGREE SIGN} )",
        ),
        ("spaced", "it does n 't work , i 'm sorry", "it does n't work , i 'm sorry"),
        ("spaced", "we're off ; o'clock 'alabama'", "we 're off ; o'clock 'alabama'"),
        (
            "moses",
            "I don't think it's \"good\" (really).",
            "I do n't think it 's \" good \" ( really ) .",
        ),
        (
            "documents",
            "It works. I can't complain!\n\n...\nBuy it",
            "It works . <sep> I ca n't complain ! ... <sep> Buy it",
        ),
    ],
)
def test_rules_of_published_text(rule, text, words):
    assert PUBLISHED[rule](text) == words


@pytest.mark.parametrize(
    ("published", "meant"),
    [
        (r"one\ntwo", "one two"),
        ("a second\\team", "a second team"),
        (r"she said \"hi\"", 'she said  "hi "'),
        ("it #39;s 5 #36; at AT&amp;T", "it 's 5 $ at AT&T"),
        ("&lt;b&gt;Bold&lt;/b&gt; <br />text", " Bold   text"),
        ("a < b and number #12 and C#39", "a < b and number #12 and C#39"),
    ],
)
def test_escapes_references_and_markup_are_undone(published, meant):
    assert plain_text(published) == meant


PARTED = [
    "A witty , seductive movie .",
    "It does n't have -LRB- any -RRB- of it",
    "K 19 stays afloat as decent drama/action flick",
    "",
]


@pytest.mark.parametrize("name", ["treebank", "spaced"])
def test_split_text_is_read_as_published(name):
    assert [RULES[name](text) for text in PARTED] == [PUBLISHED[name](text) for text in PARTED]


@pytest.mark.parametrize("name", ["treebank", "spaced"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A witty, seductive movie.", "A witty , seductive movie ."),
        ("It's not what I'd call good!", "It 's not what I 'd call good !"),
    ],
)
def test_plain_text_is_tokenized(name, text, words):
    assert RULES[name](text) == words


def test_plain_text_is_tokenized_before_it_is_split():
    words = RULES["treebank-split"]("A well-known dog's here.")
    assert words == "A well - known dog ' s here ."


@pytest.mark.parametrize("name", RULES)
def test_every_rule_leaves_split_words_alone(name):
    assert RULES[name]("a good film , and short .") == "a good film , and short ."


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Mr. Smith, e.g. in the U.S. army, paid 3.5 to J. Doe.", [...]),
        ("It is good... but dear.", [...]),
        ("It works. it lasts! Why? Done", ["It works.", "it lasts!", "Why?", "Done"]),
        ("It is good... But dear.", ["It is good...", "But dear."]),
        ('He said "no!" and left. "Yes." Then', ['He said "no!" and left.', '"Yes."', "Then"]),
        ("Three weeks (yes!) for that. (No.) ", ["Three weeks (yes!) for that.", "(No.)"]),
        ("cons\n..........\nheavy", ["cons ..........", "heavy"]),
        ("see a.com. It", ["see a.com.", "It"]),
        (" \n ", []),
    ],
)
def test_text_is_split_into_sentences(text, sentences):
    assert split_sentences(text) == ([text] if sentences == [...] else sentences)


# --- Dictionaries --------------------------------------------------------------------------------


def test_a_word_needs_occurrences_or_a_vector():
    train = Counter({"often": 3, "rare": 1, "known": 1})
    others = Counter({"often": 1, "known": 9, "unseen": 2, "unseen-known": 1})
    assert choose_words(train, others, {"known", "unseen-known"}, min_count=2) == {
        "often": 3,
        "known": 1,
        "unseen-known": 0,
    }


def test_fairseq_reads_the_dictionary_in_its_order(tmp_path):
    counts = Counter({"b": 1, "</s>": 5, "<unk>": 2, "\xe9": 4, "a": 1})
    counts = choose_words(counts, {}, set(), 1)
    write_dictionary(tmp_path / "dict.txt", counts)
    dictionary = Dictionary.load(str(tmp_path / "dict.txt"))
    assert dictionary.symbols[dictionary.nspecial :] == ["\xe9", "a", "b"]
