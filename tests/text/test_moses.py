"""Moses tokenization, compared with the output of the Perl scripts."""

import pytest

from fairseq_posattn.text.moses import MOSES_RATIO, RATIO, Tokenizer, is_clean


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        ("en", "I can't, he'd say.", "I can &apos;t , he &apos;d say ."),
        ("en", 'R&D: "x < y" [1|2]', "R &amp; D : &quot; x &lt; y &quot; &#91; 1 &#124; 2 &#93;"),
        ("de", "Das ist z. B. der 3. Oktober.", "Das ist z. B. der 3. Oktober ."),
        ("en", "", ""),
    ],
)
def test_text_is_tokenized_and_escaped(language, line, expected):
    assert Tokenizer(language)(line) == expected


@pytest.mark.parametrize(
    ("language", "line", "expected"),
    [
        # German puts the full stop behind the quotation mark; English the other way round.
        ("de", "„Ich will sterben.“", "&quot; Ich will sterben &quot; ."),
        ("en", "“No”, he said—“never”.", "&quot; No , &quot; he said - &quot; never . &quot;"),
        ("en", "it’s 50 % … « so »", "it &apos;s 50 % ... &quot; so &quot;"),
        ("de", "10\u00a0000 Euro", "10,000 Euro"),
        ("de", "Ein\u00admal", "Ein mal"),  # a soft hyphen
    ],
)
def test_punctuation_is_normalized(language, line, expected):
    assert Tokenizer(language, normalize=True)(line) == expected


def test_hyphens_are_split_on_request():
    line = "re-election of the US-Präsident, 1990-2000 -- well-"
    assert Tokenizer("de", split_hyphens=True)(line) == (
        "re @-@ election of the US @-@ Präsident , 1990 @-@ 2000 -- well-"
    )


@pytest.mark.parametrize(
    ("longest", "ratio", "clean", "unclean"),
    [
        (10, RATIO, [(4, 6), (1, 1), (10, 10)], [(4, 7), (7, 4), (0, 0), (10, 11)]),
        (80, MOSES_RATIO, [(1, 9), (9, 1), (80, 80)], [(1, 10), (80, 81), (0, 1)]),
        (80, None, [(1, 80)], [(1, 81), (0, 1)]),
    ],
)
def test_clean_pairs_are_selected_by_length_and_ratio(longest, ratio, clean, unclean):
    for pairs, expected in ((clean, True), (unclean, False)):
        for source, target in pairs:
            pair = " ".join(["w"] * source), " ".join(["w"] * target)
            assert is_clean(pair, longest, ratio) is expected, (source, target)
    assert is_clean(("a" * 1000, "b"), longest, ratio)
    assert not is_clean(("a" * 1001, "b"), longest, ratio)
