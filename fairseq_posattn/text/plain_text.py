"""From plain text to the pieces that a model of pairs reads, and from its pieces to plain text.

Both by what the manifest beside the model's data says of how that text was made.
"""

from collections.abc import Callable
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text import gpt, moses, words
from fairseq_posattn.text.lines import one_line
from fairseq_posattn.text.manifest import NAME, Manifest
from fairseq_posattn.text.subwords import BytePairEncoder, SentencePieceEncoder
from fairseq_posattn.text.wordpiece import WordPieceEncoder

# Of each kind of subwords, the file that text is cut by: beside the manifest, or in text/ there.
CODES = {"subword_nmt": "bpe.codes", "sentencepiece": "spm.model", "wordpiece": "vocab.txt"}
CODES[gpt.SUBWORDS] = gpt.TOKENIZER
LARGEST = 1 << 25  # bytes of such a file: ten times any published


def codes_file(folder: Path, told: Manifest) -> Path | None:
    """The file that text is cut by; None where it is not cut.

    Raises:
        UsageError: it is not there, or its kind is not known, or it is too large.
    """
    if told.subwords is None:
        return None
    if told.subwords not in CODES:
        raise UsageError(
            f"{folder}/{NAME}: its words were cut by {told.subwords!r}, and the known ways are "
            f"{', '.join(CODES)}: update fairseq_posattn"
        )
    name = CODES[told.subwords]
    for path in (folder / name, folder / "text" / name):
        if path.is_file():
            if path.stat().st_size > LARGEST:
                raise UsageError(
                    f"{path}: not what {told.subwords} has written, which has at most "
                    f"{LARGEST:,} bytes: copy it anew"
                )
            return path
    raise UsageError(
        f"{folder} has no {name}, beside {NAME} or in text/, by which words are cut: copy it there "
        "from where the data was prepared"
    )


def splitter(folder: Path, told: Manifest, language: str) -> Callable[[str], str]:
    """What makes of a line its pieces, with spaces between, as those of the training data.

    Args:
        folder: that of the manifest.
        told: the manifest.
        language: of the line.

    Raises:
        UsageError: what it takes is not there, or not known.
    """
    to_words = _word_maker(folder, told.word_rule, language)
    cut = cutter(folder, told)
    # What WordPiece makes of capitals and accents, when it leaves none, is its own affair.
    lower = told.lower and (told.cased or told.subwords != "wordpiece")

    def split(line):
        text = one_line(to_words(line))
        return " ".join(cut(text.lower() if lower else text).split(" ")[: told.longest])

    return split


def joiner(told: Manifest, language: str) -> Callable[[str], str]:
    """What makes of words, with spaces between, a line of plain text: the way back, but for case.

    Args:
        told: the manifest.
        language: of the words.
    """
    by_moses = told.word_rule in moses.RULES
    if not by_moses and told.subwords != "wordpiece":
        return str  # words were not parted, or as the text had them
    from sacremoses import MosesDetokenizer

    # WordPiece parts punctuation, too; of summaries nothing says the language.
    detokeniser = MosesDetokenizer(language if by_moses else "en")
    return lambda line: detokeniser.detokenize(line.split(), unescape=by_moses)


def _word_maker(folder, rule, language):
    if rule in moses.RULES:
        return moses.RULES[rule](language)
    if rule in words.RULES:
        return words.RULES[rule]
    raise UsageError(
        f"{folder}/{NAME}: its words were made by the rule {rule!r}, and the known ones are "
        f"{', '.join((*moses.RULES, *words.RULES))}: update fairseq_posattn"
    )


def cutter(folder: Path, told: Manifest) -> Callable[[str], str]:
    """Return what splits a line of words into subwords; ``str`` where words are not split.

    Raises:
        UsageError: as :func:`codes_file`, or the file is of another kind.
    """
    path = codes_file(folder, told)
    try:
        if told.subwords == "subword_nmt":
            with redirect_stderr(StringIO()):  # it tells of what is wrong, in two lines, and exits
                return BytePairEncoder(path)
        if told.subwords == "sentencepiece":
            return SentencePieceEncoder(path)
        if told.subwords == "wordpiece":
            return WordPieceEncoder(path, told.cased or not told.lower)
        if told.subwords == gpt.SUBWORDS:
            return gpt.splitter(path)
    except (OSError, RuntimeError, ValueError, SystemExit):
        raise UsageError(f"{path}: not what {told.subwords} has written: copy it anew") from None
    return str
