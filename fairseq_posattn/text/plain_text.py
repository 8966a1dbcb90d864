"""Plain text to the subwords of a trained model and back, by the manifest beside its data."""

import html
import os
import unicodedata
from collections.abc import Callable
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path

import regex

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.text import gpt, manifest, moses, words
from fairseq_posattn.text.lines import one_line
from fairseq_posattn.text.manifest import NAME, Manifest
from fairseq_posattn.text.subwords import BytePairEncoder, SentencePieceEncoder, WordPieceEncoder

# The codes file of each kind of subwords: beside the manifest, or in text/ there.
CODES = {
    **{"subword_nmt": "bpe.codes", "sentencepiece": "spm.model", "wordpiece": "vocab.txt"},
    gpt.SUBWORDS: gpt.TOKENIZER,
}
LARGEST = 1 << 25  # bytes of a codes file: ten times any published file
HANGUL = regex.compile(r"\p{Hangul}")
# Private characters are text: scripts that Unicode lacks are written in them.
INVISIBLE = regex.compile(r"[\s\p{Cc}\p{Cf}]+")
# A command that converts a file.
TO_NFC = (
    'python -c "import sys, unicodedata as u; '
    "sys.stdout.write(u.normalize('NFC', open(0, newline='').read()))\" <FILE >NEW"
)
DICTIONARIES = ("dict.*.txt", "*/dict.txt")


def codes_file(folder: Path, rules: Manifest) -> Path | None:
    """Return the codes file of a folder, or None without subwords; UsageError if it is missing."""
    if rules.subwords is None:
        return None
    if rules.subwords not in CODES:
        unknown = f"subwords {rules.subwords!r} is none of {', '.join(CODES)}"
        raise UsageError(f"{folder}/{NAME}: {unknown}; update fairseq_posattn")
    name = CODES[rules.subwords]
    for path in (folder / name, folder / "text" / name):
        if path.is_file():
            manifest.check_size(path)
            if path.stat().st_size <= LARGEST:
                return path
            kind = f"{rules.subwords}, which has at most {LARGEST:,} bytes"
            raise UsageError(f"{path}: not a file of {kind}; copy it again")
    where = f"beside {NAME} or in text/; copy it from the prepared data"
    raise UsageError(f"{folder}: has no {name}, {where}")


def splitter(
    folder: Path, rules: Manifest, language: str, encode: Callable[[str], str] | None = None
) -> Callable[[str], str]:
    """Return the function of training from a line to subwords; a UsageError without its files.

    ``encode`` is a :func:`cutter` of the same rules, by default a new one.
    """
    tokenize, encode = tokenizer(folder, rules, language), encode or cutter(folder, rules)
    return partial(_split, tokenize, encode, rules.longest)  # can be pickled


def _split(
    tokenize: Callable[[str], str], encode: Callable[[str], str], longest: int | None, line: str
) -> str:
    return " ".join(encode(tokenize(line)).split(" ")[:longest])


def tokenizer(folder: Path, rules: Manifest, language: str) -> Callable[[str], str]:
    """Return a function from a line to its words in the Unicode form and case of training."""
    to_words = words_of(folder, rules, language)
    # An uncased WordPiece lower-cases itself.
    lower = rules.lower and (rules.cased or rules.subwords != "wordpiece")
    return partial(_tokenize, rules, to_words, lower)


def _tokenize(rules: Manifest, to_words: Callable[[str], str], lower: bool, line: str) -> str:
    if not rules.languages:  # a TAB separates the sentences of labeled pairs
        line = line.replace("\t", " ")
    text = one_line(to_words(in_form(line, rules.normalize)))
    return text.lower() if lower else text


def is_visible(text: str) -> bool:
    """Return whether text has a character that can be seen."""
    return INVISIBLE.fullmatch(text or " ") is None


def in_form(line: str, form: str | None) -> str:
    """Return a line in a Unicode form such as ``nfc``, or as it is for None."""
    return line if form is None else unicodedata.normalize(form.upper(), line)  # type: ignore[arg-type]


def words_of(folder: Path, rules: Manifest, language: str) -> Callable[[str], str]:
    """Return the function from a line to its words by the manifest's rule."""
    if rules.word_rule in moses.RULES:
        return moses.RULES[rules.word_rule](language)
    if rules.word_rule in words.RULES:
        return words.RULES[rules.word_rule]
    unknown = f"word_rule {rules.word_rule!r} is none of {', '.join((*moses.RULES, *words.RULES))}"
    raise UsageError(f"{folder}/{NAME}: {unknown}; update fairseq_posattn")


def cutter(folder: Path, rules: Manifest) -> Callable[[str], str]:
    """Return a function from words to subwords; UsageError for a wrong :func:`codes_file`."""
    path = codes_file(folder, rules)
    if path is None:
        return str
    try:
        with redirect_stderr(StringIO()):  # subword-nmt prints two lines and exits
            return encoder_of(rules.subwords, path, rules.cased or not rules.lower, rules.accents)
    except (OSError, RuntimeError, ValueError, SystemExit):
        raise UsageError(f"{path}: not a file of {rules.subwords}; copy it again") from None


def encoder_of(kind: str | None, path: Path, cased: bool, accents: bool) -> Callable[[str], str]:
    """Return a function from words to subwords by a codes file; the rest is for WordPiece."""
    if kind == "wordpiece":
        return WordPieceEncoder(path, cased, accents)
    if kind == "sentencepiece":
        return SentencePieceEncoder(path)
    return BytePairEncoder(path) if kind == "subword_nmt" else gpt.splitter(path)


def plain_word(rules: Manifest | None) -> Callable[[str], str]:
    """Return a function from a token to its text: Moses' tokens have escapes, such as &apos;."""
    return html.unescape if rules and rules.word_rule in moses.RULES else str


def joiner(rules: Manifest, language: str) -> Callable[[str], str]:
    """Return a function from words of a language, with spaces between, to a line of plain text."""
    by_moses = rules.word_rule in moses.RULES
    if not by_moses and rules.subwords != "wordpiece":
        return str
    if by_moses:
        return partial(_join_tokens, moses.Detokenizer(language))
    # WordPiece splits off punctuation, too; the manifest of summaries names no language. Moses
    # joins words of Chinese characters, and of Korean unless it is the language.
    english, korean = moses.Detokenizer("en"), moses.Detokenizer("ko")
    # Without accents, syllables of Hangul and some vowel signs are in parts.
    form = "nfc" if rules.lower and not (rules.cased or rules.accents) else None
    return partial(_join_words, english, korean, form)


def _join_tokens(detokenizer: moses.Detokenizer, line: str) -> str:
    return detokenizer.detokenize(line.split())


def _join_words(
    english: moses.Detokenizer, korean: moses.Detokenizer, form: str | None, line: str
) -> str:
    detokenizer = korean if HANGUL.search(line) else english
    return in_form(detokenizer.detokenize(line.split(), unescape=False), form)


def copy_companions(data: Path, folder: Path) -> None:
    """Copy manifest, dictionaries and codes beside a checkpoint; recommenders need more."""
    rules = manifest.read(data)
    if rules is None or rules.task == "news_recommendation" or os.path.samefile(data, folder):
        return
    files = {path.relative_to(data): path for kind in DICTIONARIES for path in data.glob(kind)}
    if codes := codes_file(data, rules):
        files[Path(codes.name)] = codes
    files[Path(NAME)] = data / NAME  # last: if it is there, all files are
    for name, path in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        with writing(folder / name, binary=True) as copy:
            copy.write(path.read_bytes())
