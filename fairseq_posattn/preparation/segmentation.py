"""Subword segmentations: what is learned from the training text, and what splits text by it."""

import hashlib
import re
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import islice
from math import ceil, sqrt
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.like import Template
from fairseq_posattn.text import gpt, plain_text, subwords
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.vocabulary import SPECIAL

# SentencePiece holds its training sentences in memory, and skips lines of over 4,192 bytes.
LEARN_FROM = 500_000
SENTENCE_END = re.compile(r"(?<=[.!?]) |(?<=[\u3002\uff01\uff1f\u0964\u06d4\u104b\u17d4])")
LONGEST_SENTENCE = 4 * subwords.WORD_LENGTH  # bytes
USUAL_MERGES = 10_000
MOST_PIECES = 511  # subwords of a text or summary
RICH = 4  # subwords for each character of the alphabet, at least, for all to be in the vocabulary
BYTES = 256 + len(SPECIAL)  # SentencePiece's subwords of bytes and symbols
# Subwords by the square root of the text's characters, within these bounds, beside its alphabet.
PER_ROOT, FEWEST, MOST = 4, 1_000, 32_000
BY_TEXT = f"{FEWEST:,} to {MOST:,} by the size of the training text"  # the default, for --help

Lines = Callable[[], Iterator[str]]  # yields the training text each time

# Of the text files in subwords of each kind.
PREFIXES = {"subword_nmt": "bpe.", "sentencepiece": "spm.", "wordpiece": "wordpiece."}


class Subwords:
    """Subwords that are learned from text."""

    kind: str | None
    files: tuple[str, ...]  # learned files, in the folder of the text; the codes first
    settings: dict[str, Any]  # the options that affect them
    lower = accents = False  # text is not lowercased

    def learn(self, lines: Lines, folder: Path) -> None:
        """Write :attr:`files` to a folder; ``lines()`` yields the training text each time."""
        raise NotImplementedError

    def encoder(self, folder: Path) -> Callable[[str], str]:
        """Return a function that splits a line by the files learned in ``folder``."""
        path = folder / self.files[0]
        return plain_text.encoder_of(self.kind, path, not self.lower, self.accents)

    def vocabulary(self, folder: Path) -> list[str]:
        """Return all subwords, without special symbols."""
        raise NotImplementedError


class BytePairs(Subwords):
    """Byte-pair encoding of tokenized text."""

    kind, files = "subword_nmt", ("bpe.codes",)

    def __init__(self, options: Namespace) -> None:
        self.settings = {"operations": options.bpe_operations or USUAL_MERGES}

    def learn(self, lines: Lines, folder: Path) -> None:
        subwords.learn_bpe(lines(), self.settings["operations"], folder / self.files[0])


class SentencePieces(Subwords):
    """SentencePiece's byte pairs of untokenized text, spaces included.

    Text comes back unchanged: it is not normalized, and characters that are too rare for a subword
    are split into bytes.
    """

    kind, files = "sentencepiece", ("spm.model", "spm.vocab")

    def __init__(self, options: Namespace) -> None:
        self.settings = {"vocabulary_size": options.vocabulary_size}
        if merges := getattr(options, "bpe_operations", None):
            self.settings = {"operations": merges}

    def learn(self, lines: Lines, folder: Path) -> None:
        vocabulary_size, merges = map(self.settings.get, ("vocabulary_size", "operations"))
        sample, size = _sample(lines, vocabulary_size)
        alphabet = len(set[str]().union(*sample()))
        if vocabulary_size is None:
            size = alphabet + (BYTES + merges if merges else size)
        say(f"learning {size:,} subwords")
        if size <= BYTES + alphabet:
            say(
                f"warning: --vocabulary-size {size}: too few to have the bytes of characters that "
                f"training lacks, which are unknown to the model; give {BYTES + alphabet + 1} or "
                "more"
            )
        subwords.train_sentencepiece(
            sample(),
            size,
            folder / "spm",
            normalization_rule_name="identity",
            byte_fallback=size > BYTES + alphabet,  # else unseen characters are unknown
            control_symbols=SPECIAL[1],  # fairseq's: no subword may be equal to it
            hard_vocab_limit=False,  # a small text may have fewer subwords
            max_sentence_length=LONGEST_SENTENCE,
            # A unigram model's candidates have varied right contexts. In tokenized text only
            # spaces follow words, so it would lack them.
            model_type="bpe",
            # Chinese characters alone would fill a small vocabulary.
            character_coverage=0.9995 if BYTES + alphabet < size < RICH * alphabet else 1.0,
        )

    def vocabulary(self, folder: Path) -> list[str]:
        known = [line.partition("\t")[0] for line in file_lines(folder / self.files[1])]
        return [subword for subword in known if subword not in SPECIAL]


class WordPieces(Subwords):
    """BERT's WordPiece, with a learned or a given vocabulary."""

    kind, files = "wordpiece", ("vocab.txt",)

    def __init__(self, options: Namespace) -> None:
        self.vocabulary_file, self.cased = options.wordpiece_vocabulary, options.cased
        self.lower = not self.cased
        # A vocabulary of BERT's without capitals has no accents either.
        self.accents = not (self.vocabulary_file or options.strip_accents)
        self.settings = {"vocabulary_size": options.vocabulary_size, "cased": self.cased}
        if self.accents:
            self.settings["accents"] = True
        if self.vocabulary_file:
            subwords.read_vocabulary(self.vocabulary_file)
            digest = hashlib.sha256(self.vocabulary_file.read_bytes()).hexdigest()
            self.settings = {"vocabulary": digest, "cased": self.cased}

    def learn(self, lines: Lines, folder: Path) -> None:
        if self.vocabulary_file:
            shutil.copyfile(self.vocabulary_file, folder / self.files[0])
        else:
            sample, size = _sample(lines, self.settings["vocabulary_size"])
            path = folder / self.files[0]
            subwords.learn_wordpiece(sample, size, self.cased, path, self.accents)

    def vocabulary(self, folder: Path) -> list[str]:
        known = subwords.read_vocabulary(folder / self.files[0])
        return [subword for subword in known if subword not in (*subwords.BERT_SYMBOLS, *SPECIAL)]


class GptSubwords(Subwords):
    """The subwords of a GPT, whose files are in a folder."""

    kind, files = gpt.SUBWORDS, (gpt.TOKENIZER,)

    def __init__(self, options: Namespace) -> None:
        for flag in ("--glove", "--min-count", "--cased"):
            if getattr(options, flag[2:].replace("-", "_")):
                problem = "--language-model brings its own vocabulary; leave it out"
                raise UsageError(f"{flag}: {problem}")
        self.tokenizer = gpt.read_tokenizer(options.language_model)
        self.settings = {"tokenizer": hashlib.sha256(self.tokenizer.to_str().encode()).hexdigest()}

    def learn(self, lines: Lines, folder: Path) -> None:
        self.tokenizer.save(str(folder / self.files[0]))

    def vocabulary(self, folder: Path) -> list[str]:
        numbers = self.tokenizer.get_vocab()
        return sorted(numbers, key=numbers.get)


KINDS: dict[str, Callable[[Namespace], Subwords]] = {
    "subword_nmt": BytePairs,
    "sentencepiece": SentencePieces,
    "wordpiece": WordPieces,
    gpt.SUBWORDS: GptSubwords,
}


class ModelSubwords(Subwords):
    """The subwords of a model, if any, whose file is copied."""

    def __init__(self, template: Template) -> None:
        self.template, codes = template, template.codes
        self.kind, self.files = template.rules.subwords, (codes.name,) if codes else ()
        self.settings = {"like": template.digest()}
        self.lower, self.accents = template.rules.lower, template.rules.accents

    def learn(self, lines: Lines, folder: Path) -> None:
        if codes := self.template.codes:
            shutil.copyfile(codes, folder / codes.name)

    def encoder(self, folder: Path) -> Callable[[str], str]:
        return plain_text.cutter(folder, self.template.rules)


def prefix_of(kind: str | None) -> str:
    return PREFIXES.get(str(kind), "")


def subwords_of(kind: str | None, options: Namespace) -> Subwords | None:
    """Return the subwords of a kind, if any; those of the model with ``--like``."""
    if kind is None:
        return None
    return ModelSubwords(options.template) if options.template else KINDS[kind](options)


def choose_size(characters: int) -> int:
    return int(round(min(max(PER_ROOT * sqrt(characters), FEWEST), MOST), -2))


def _sample(lines: Lines, size: int | None) -> tuple[Lines, int]:
    """Return a function that yields sentences to learn from, and how many subwords to learn.

    The sentences are the same each time. A ``size`` of None is chosen by the text.
    """

    def sentences() -> Iterator[str]:
        for line in lines():
            yield from SENTENCE_END.split(line)

    number = characters = 0
    for sentence in sentences():
        number, characters = number + 1, characters + len(sentence)
    step = ceil(number / LEARN_FROM)
    if step > 1:
        say(f"learning subwords from every {step}th sentence")
    return lambda: islice(sentences(), 0, None, step), size or choose_size(characters)
