"""Text to words: one function for each kind of published text.

All write what is shortened as the Penn Treebank does (``do n't``, ``it 's``), and so does GloVe.
"""

import re
from functools import cache, partial

from fairseq_posattn.preparation.text.moses import Tokeniser
from fairseq_posattn.preparation.text.sentences import split_sentences

BRACKETS = {
    "-LRB-": "(",
    "-RRB-": ")",
    "-LSB-": "[",
    "-RSB-": "]",
    "-LCB-": "{",
    "-RCB-": "}",
}
SEPARATOR = " <sep> "
# "don 't" and "do n 't" for "do n't", as Moses and some of the published files have it
_join_negations = partial(re.compile(r" ?(n) ('t)(?!\S)", re.IGNORECASE).sub, r" \1\2")
_part_clitics = partial(
    re.compile(r"(?<=\w)(n't|'(?:s|re|ve|m|ll|d))(?!\S)", re.IGNORECASE).sub, r" \1"
)


def treebank_words(text):
    """The words of text in the Treebank's tokens, with plain brackets and slashes."""
    words = (BRACKETS.get(word, word) for word in text.split())
    text = " ".join(word.replace("\\/", "/").replace("\\*", "*") for word in words)
    return _join_negations(text).strip()


def spaced_words(text):
    """The words of text with spaces around its marks, where only short forms may be unparted."""
    return _part_clitics(_join_negations(" ".join(text.split()))).strip()


def moses_words(text):
    """The words of plain text, parted by Moses' rules."""
    return _join_negations(_moses()(text)).strip()


def document_words(text):
    """The words of a plain text, with ``<sep>`` between its sentences."""
    return SEPARATOR.join(filter(None, map(moses_words, split_sentences(text))))


@cache
def _moses():
    return Tokeniser("en", escape=False)
