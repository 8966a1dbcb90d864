"""Tokenization rules by name, one for each kind of published text, and sentence splitting.

All rules split contractions as the Penn Treebank and GloVe do (``do n't``, ``it 's``).
``PUBLISHED`` has the rules for published text, ``RULES`` those for text that users type.
"""

import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from itertools import chain
from typing import Any

import regex

from fairseq_posattn.text.lines import one_line
from fairseq_posattn.text.moses import Tokenizer

# Ends of sentences. Linear in the length of the text: some have thousands of dots in a row.
END = re.compile(r"(?<![.!?])[.!?]+[\"')\]]*(?=\s)")
# With the ellipsis sign, and with quotation marks and brackets of every language.
ANY_END = regex.compile(r"(?<![.!?…])[.!?…]+(?:[\u00a0\u202f]?[\"'\p{Pe}\p{Pf}\p{Pi}]| »)*(?=\s)")
# Ends that need no spaces, in scripts beside Latin. Commas of Burmese, Javanese and Balinese and a
# dot of Armenian are none, nor are wide full stops within numbers. Greek asks by a semicolon, much
# Armenian text ends by a colon, and much Ethiopic text by two word separators.
OTHER_END = regex.compile(
    r"(?V1)(?:[[\p{STerm}\u037e]--[\p{ASCII}\u104a\u1b5e\u2024\ua9c8\uff0e]]|\uff0e(?!\p{N})"
    r"|\u1361{2}|(?<=\p{Greek}{2});|(?<=\p{Armenian}):(?!\w))+(?:[\p{Pe}\p{Pf}]|[\"'](?=\s|$))*"
)
# Letters and numbers, private ones and the symbols of SignWriting among them.
ALNUM = r"[\p{L}\p{N}\p{Co}[\p{Sgnw}--\p{P}]]"
HAS_ALNUM = regex.compile(rf"(?V1){ALNUM}")
BEFORE_WORD = re.compile(r"[\s\"'(\[]")
# With marks of every language, and the hyphen of J.-P. Apostrophes part l'A. and DELL'O.N.U., but
# neither can't. nor MCDONALD'S.
BEFORE_ANY_WORD = regex.compile(
    r"[\s\"\p{Ps}\p{Pi}»”›¿¡—]|(?<=\.)-|(?<!\p{L})'|['’](?=\p{Lu}\.)|(?<!\p{Lu}{2})['’](?=\p{Lu})"
)
NEXT = re.compile(r"\S")
# Letters with stops between, or one letter, also of scripts without capitals whose sentences do not
# end by one letter.
ABBREVIATION = regex.compile(
    r"(?V1)(?:(?:\p{L}\p{M}*\.)+\p{L}\p{M}*"
    r"|[A-Za-z\p{Lu}\p{Georgian}[\p{Lo}&&[\p{Arabic}\p{Hebrew}\p{Ethiopic}\p{Thai}\p{Lao}]]])$"
)
BRACKETS = dict(zip(["-LRB-", "-RRB-", "-LSB-", "-RSB-", "-LCB-", "-RCB-"], "()[]{}", strict=True))
SENTENCE_SEPARATOR = "<sep>"  # between the sentences of a document
# AG News lost the ampersands of many character references: " #39;s", " quot;", "#36;5 million".
HALF_REFERENCE = re.compile(r"(?<!&)\b(?:amp|lt|gt|quot|nbsp);|(?<!&)#\d{2,4};")
MARKUP = re.compile(r"</?[a-z]+(?:\s[^<>]*)?/?>", re.IGNORECASE)
# Where MTSA's released code splits the words of SNLI: hyphens, dashes, slashes, quotes, degrees.
MARK_WITHIN = re.compile("[-\u2212\u2014\u2013/~\"'\u201c\u2019\u201d\u2018\u00b0]")
LETTER = regex.compile(r"(?V1)[[\p{L}\p{M}\p{Co}\u180e\u200c\u200d]--[\ufe00-\ufe0f]]")
# Scripts without spaces beside those of South East Asian line breaking, Chinese and Japanese.
ALSO_UNSPACED = r"\p{Javanese}\p{Balinese}\p{Yi}"
# Combining marks, joiners, and characters of scripts that are written without spaces.
UNSPACED = regex.compile(
    r"[\p{M}\u200c\u200d\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}"
    rf"\p{{Tai_Viet}}\p{{Tibetan}}{ALSO_UNSPACED}\p{{Han}}\p{{Hiragana}}\p{{Katakana}}"
    r"\p{InCJKSymbolsAndPunctuation}\p{InHalfwidthAndFullwidthForms}]"
)
_CLITIC = r"(?:n't|'(?:s|re|ve|m|ll|d))"
MARK_ALONE = re.compile(
    rf"(?<!\S)(?:[.,;:!?]+|``|''|--|-[LR][RSC]B-|[()\"]|{_CLITIC})(?!\S)", re.IGNORECASE
)
MARK_AT_WORD = re.compile(rf"\w(?:[.,;:!?]|{_CLITIC})(?!\S)", re.IGNORECASE)
# "don 't" and "do n 't" for "do n't", as written by Moses and some published files
_join_negations = partial(re.compile(r" ?(n) ('t)(?!\S)", re.IGNORECASE).sub, r" \1\2")
_part_clitics = partial(re.compile(rf"(?<=\w)({_CLITIC})(?!\S)", re.IGNORECASE).sub, r" \1")

Rule = Callable[[str], str]  # from text to its tokens, with spaces between


@cache
def _moses(keep_marks: bool) -> Tokenizer:
    return Tokenizer("en", escape=False, keep_marks=keep_marks)


def treebank_words(text: str) -> str:
    """Return Treebank tokens with plain brackets and slashes."""
    words = (BRACKETS.get(word, word) for word in text.split())
    text = " ".join(word.replace("\\/", "/").replace("\\*", "*") for word in words)
    return _join_negations(text).strip()


def split_treebank_words(text: str) -> str:
    """Return Treebank tokens split at :data:`MARK_WITHIN`."""
    return spaces(MARK_WITHIN.sub(r" \g<0> ", treebank_words(text)))


def spaced_words(text: str) -> str:
    """Return the tokens of text whose punctuation is split off, splitting its contractions."""
    return _part_clitics(_join_negations(spaces(text))).strip()


def moses_words(text: str, keep_marks: bool = False) -> str:
    """Return the Moses tokens of plain text; ``keep_marks`` is that of :class:`.Tokenizer`."""
    return _join_negations(_moses(keep_marks)(text)).strip()


def unsuited_share(characters: Mapping[str, int], cased: bool) -> float:
    """Return the share of letters (counts) that words do not suit.

    They are marks, unspaced, split off by Moses or, unless ``cased``, the capital dotted and the
    small dotless i of Turkish: lower-casing takes its I for a capital i.
    """
    letters = Counter({letter: n for letter, n in characters.items() if LETTER.match(letter)})
    unsuited = [
        letter
        for letter in letters
        if UNSPACED.match(letter)
        or (letter in "\u0130\u0131" and not cased)
        or " " in moses_words(f"a{letter}a")
    ]
    return sum(letters[letter] for letter in unsuited) / max(1, letters.total())


def document_words(text: str, keep_marks: bool = False, any_script: bool = False) -> str:
    """Return the Moses tokens of plain text, with ``<sep>`` between its sentences."""
    sentences = split_sentences(text, any_script)
    words = (moses_words(sentence, keep_marks) for sentence in sentences)
    return f" {SENTENCE_SEPARATOR} ".join(filter(None, words))


def plain_text(text: str) -> str:
    """Return text without the escapes, references and HTML tags of Zhang et al.'s files."""
    text = text.replace("\\n", " ").replace("\\", " ")
    text = HALF_REFERENCE.sub(lambda half: f"&{half[0]}", text)
    return MARKUP.sub(" ", html.unescape(html.unescape(text)))


def parted(rule: Rule) -> Rule:
    """Extend a rule to plain text, with punctuation at words and none alone, which Moses splits."""

    def words(text: str) -> str:
        is_plain = MARK_AT_WORD.search(text) and not MARK_ALONE.search(text)
        return moses_words(text) if is_plain else rule(text)

    return words


def spaces(text: str) -> str:
    """Return tokenized text with single spaces."""
    return " ".join(text.split())


def single_spaces(text: str) -> str:
    """Return text as one line, without spaces at its ends and repeated spaces; all else stays."""
    return re.sub(" +", " ", one_line(text)).strip(" ")


PUBLISHED: dict[str, Rule] = {
    "text": single_spaces,
    "spaces": spaces,
    "treebank": treebank_words,
    "treebank-split": split_treebank_words,
    "spaced": spaced_words,
    "moses": moses_words,
    "documents": document_words,
    "moses-marks": partial(moses_words, keep_marks=True),
    "documents-marks": partial(document_words, keep_marks=True),  # of older folders
    "documents-any-script": partial(document_words, keep_marks=True, any_script=True),
    "articles": lambda text: moses_words(plain_text(text)),
}
RULES: dict[str, Rule] = {
    **PUBLISHED,
    "treebank": parted(treebank_words),
    "treebank-split": lambda text: split_treebank_words(parted(treebank_words)(text)),
    "spaced": parted(spaced_words),
}


def split_sentences(text: str, any_script: bool = False) -> list[str]:
    """Return the sentences of a document, without surrounding white space.

    A line break ends a sentence. So do ``!``, ``?`` and a full stop before white space, but not a
    full stop after one of Moses' English abbreviations, a single letter or letters with stops
    between (``e.g``, ``U.S``). Several stops, or marks before a quotation mark or a bracket, end a
    sentence only if no small letter follows. Marks alone belong to the sentence before.
    With ``any_script`` the ellipsis sign counts as several stops, and marks of other scripts, such
    as the Hindi danda, end a sentence, too.
    """
    ends, before = (ANY_END, BEFORE_ANY_WORD) if any_script else (END, BEFORE_WORD)
    if any_script:
        text = OTHER_END.sub(r"\g<0>\n", text)
    sentences: list[list[str]] = []  # each with the marks after it
    parts = (_sentences_of_line(line, ends, before) for line in text.split("\n"))
    for sentence in filter(None, chain.from_iterable(parts)):
        if sentences and not HAS_ALNUM.search(sentence):
            sentences[-1].append(sentence)
        else:
            sentences.append([sentence])
    return list(map(" ".join, sentences))


def _sentences_of_line(line: str, ends: Any, before: Any) -> Iterator[str]:
    start = looked = 0
    for end in ends.finditer(line):
        word = before.split(line[looked : end.start()])[-1]
        following = NEXT.search(line, end.end())
        if _ends_here(word, end[0], following[0] if following else ""):
            yield line[start : end.end()].strip()
            start = end.end()
        looked = end.end()
    yield line[start:].strip()


def _ends_here(word: str, marks: str, following: str) -> bool:
    if following.islower() and (marks.startswith("..") or marks[-1] not in ".!?"):
        return False
    if marks[0] in "!?…" or marks[:2] == "..":
        return True
    return not (word in _abbreviations() or ABBREVIATION.match(word))


@cache
def _abbreviations() -> set[str]:
    from sacremoses.corpus import NonbreakingPrefixes

    return {line.split()[0] for line in NonbreakingPrefixes().words("en")}
