"""Tokenised text as the Moses scripts make it. Expected lines are those of the Perl scripts."""

import pickle

import pytest

from fairseq_posattn.text.moses import MOSES_RATIO, Tokeniser, is_clean


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("en", "I can't, he'd say.", "I can &apos;t , he &apos;d say ."),
        ("en", 'R&D: "x < y" [1|2]', "R &amp; D : &quot; x &lt; y &quot; &#91; 1 &#124; 2 &#93;"),
        ("en", "Proctor &amp; Gamble", "Proctor &amp; amp ; Gamble"),
        ("en", "Dr. No, e.g. in the U.S.", "Dr. No , e.g. in the U.S."),
        ("en", "over 2,000 sub-choices...", "over 2,000 sub-choices ..."),
        ("de", "Das ist z. B. der 3. Oktober.", "Das ist z. B. der 3. Oktober ."),
        ("de", "Wie geht's?", "Wie geht &apos; s ?"),
        ("en", " tabs\tand  spaces ", "tabs and spaces"),
        ("en", "", ""),
    ],
)
def test_tokenised_and_escaped(language, line, expected):
    assert Tokeniser(language)(line) == expected


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        # German puts the full stop behind the quotation mark; English the other way round.
        ("de", "„Ich will sterben.“", "&quot; Ich will sterben &quot; ."),
        ("de", "„Ja.“ – „Nein“, sagt er", "&quot; Ja &quot; . - &quot; Nein &quot; , sagt er"),
        ("en", "“No”, he said—“never”.", "&quot; No , &quot; he said - &quot; never . &quot;"),
        ("de", "Das „Hook ’em“-Zeichen", "Das &quot; Hook &quot; em &quot; -Zeichen"),
        ("en", "it’s 50 % … « so »", "it &apos;s 50 % ... &quot; so &quot;"),
        ("de", "10\u00a0000 Euro", "10,000 Euro"),
        ("en", "10\u00a0000 euros", "10.000 euros"),
        ("de", "Ein\u00admal", "Ein mal"),  # a soft hyphen
    ],
)
def test_normalised(language, line, expected):
    assert Tokeniser(language, normalise=True)(line) == expected


def test_other_processes_get_one():
    """As the tokenisers of exported models do, which have one."""
    line = "Mr. Smith saw 3.5 m. of it, e.g. here."
    tokenise = Tokeniser("en")
    assert pickle.loads(pickle.dumps(tokenise))(line) == tokenise(line)


def test_hyphens_are_split_where_asked():
    line = "re-election of the US-Präsident, 1990-2000 -- well-"
    assert Tokeniser("de", split_hyphens=True)(line) == (
        "re @-@ election of the US @-@ Präsident , 1990 @-@ 2000 -- well-"
    )


@pytest.mark.parametrize(
    ("source", "target", "clean"),
    [
        (4, 4, True),
        (4, 6, True),
        (4, 7, False),
        (7, 4, False),
        (1, 1, True),
        (0, 1, False),
        (1, 0, False),
        (0, 0, False),
        (10, 10, True),
        (10, 11, False),
        (11, 11, False),
    ],
)
def test_clean_pairs(source, target, clean):
    pair = " ".join(["w"] * source), " ".join(["w"] * target)
    assert is_clean(pair, longest=10) is clean


@pytest.mark.parametrize(
    ("source", "target", "ratio", "clean"),
    [
        (1, 9, MOSES_RATIO, True),
        (9, 1, MOSES_RATIO, True),
        (1, 10, MOSES_RATIO, False),
        (80, 80, MOSES_RATIO, True),
        (80, 81, MOSES_RATIO, False),
        (0, 1, MOSES_RATIO, False),
        (1, 80, None, True),
        (1, 81, None, False),
        (0, 1, None, False),
    ],
)
def test_clean_pairs_of_other_ratios(source, target, ratio, clean):
    pair = " ".join(["w"] * source), " ".join(["w"] * target)
    assert is_clean(pair, 80, ratio) is clean


def test_endless_words_are_not_clean():
    assert is_clean(("a" * 1000, "b"), longest=10)
    assert not is_clean(("a" * 1001, "b"), longest=10)
