"""Text to words."""

import pytest

from fairseq_posattn.preparation.text.words import (
    document_words,
    moses_words,
    spaced_words,
    treebank_words,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It 's -LRB- really -RRB- good\\/bad 3\\*", "It 's ( really ) good/bad 3*"),
        ("``  Yes ,  '' n't", "`` Yes , '' n't"),
        ("8\xa01/2 shan 't", "8 1/2 sha n't"),
        ("", ""),
    ],
)
def test_treebank(text, words):
    assert treebank_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it does n 't work , i 'm sorry", "it does n't work , i 'm sorry"),
        ("you don 't and ca n 't", "you do n't and ca n't"),
        (
            "it doesn't , we're off ; o'clock 'alabama'",
            "it does n't , we 're off ; o'clock 'alabama'",
        ),
        ("the film's 2x  zoom", "the film 's 2x zoom"),
        (" ", ""),
    ],
)
def test_text_with_spaces_around_its_marks(text, words):
    assert spaced_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't think it's \"good\" (really).", "I do n't think it 's \" good \" ( really ) ."),
        ("DON'T BUY THIS & that!", "DO N'T BUY THIS & that !"),
        ("Mr. Smith paid $5.99 (cash)...", "Mr. Smith paid $ 5.99 ( cash ) ..."),
        ("two\nlines\tand  spaces", "two lines and spaces"),
        ("  ", ""),
    ],
)
def test_plain_text(text, words):
    assert moses_words(text) == words


def test_sentences_of_a_document_are_separated():
    text = "It works. I can't complain!\n\n...\nBuy it"
    assert document_words(text) == "It works . <sep> I ca n't complain ! ... <sep> Buy it"


def test_no_text_can_make_a_separator_of_its_own():
    assert "<sep>" not in document_words("this <sep> and <SEP>").split()
