"""Subwords: byte-pair encoding (Sennrich et al., 2016), SentencePiece and WordPiece.

WordPiece is BERT's (Devlin et al., 2019), by Hugging Face's tokenizers, which number characters in
random order unless they are special tokens. The order decides between equally frequent pairs.
"""

import io
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath, writing
from fairseq_posattn.common.progress import Progress
from fairseq_posattn.text.lines import one_line, read_file

SPACE = "\u2581"  # SentencePiece's mark where a space was
CONTINUED = "##"  # WordPiece's mark of a subword within a word
# SentencePiece splits and joins at spaces, fairseq at any white space. Other white space, and a
# mark that is in the text, are always written as bytes: SentencePiece does not learn them. It skips
# lines with the reserved character U+2585.
NOT_LEARNED = re.compile(rf"[^\S ]|[{SPACE}\u2585]")
# SentencePiece's subwords of the bytes of a character that it does not have.
BYTE = re.compile("<0x[0-9A-F]{2}>")
STAND_IN = "\U0010ffff"  # for a mark in the text; no character, so that no text has it
# Characters. SentencePiece learns from no word of more than 65,535. BERT makes one unknown symbol
# of more than 100 or 200 without a space, which may be a sentence.
WORD_LENGTH = 1000
WORD_END = "</w>"  # subword-nmt's mark of a word's end in merges
UNKNOWN = "[UNK]"
BERT_SYMBOLS = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")  # not used by fairseq
REMEMBERED_WORDS = 200_000  # cached per process, so that memory does not grow with the text
ALPHABET = 1000  # characters of a learned WordPiece vocabulary, as in BERT's
MOST_WORDS = 500_000  # different words that byte pairs are learned from, with words seen once
REPEATED = 10_000  # words in a line given to the library, which takes no counts
# For tokenizers, whose threads must not run where worker processes are forked.
NO_THREADS = ("TOKENIZERS_PARALLELISM", "false")


def whole_words(subwords: str, kind: str | None) -> str:
    """Return the words that subwords stand for, both with spaces between.

    ``kind`` is ``subword_nmt`` ("@@ " within words), ``sentencepiece`` ("\u2581" before words),
    ``wordpiece`` ("##" within words) or ``gpt`` ("</w>" after words); text of any other kind
    is returned unchanged. Bytes that are no character become U+FFFD, separators of lines a space.
    """
    if kind == "subword_nmt":
        return f"{subwords} ".replace("@@ ", "").rstrip()
    if kind == "sentencepiece":
        if "<0x" not in subwords:
            return subwords.replace(" ", "").replace(SPACE, " ").strip(" ")
        groups = groupby(subwords.split(), lambda subword: BYTE.fullmatch(subword) is not None)
        parts = (_join(group, are_bytes) for are_bytes, group in groups)
        return one_line("".join(parts)).strip(" ")
    if kind == "gpt":
        return subwords.replace(" ", "").replace(WORD_END, " ").rstrip()
    if kind == "wordpiece":
        return f" {subwords}".replace(f" {CONTINUED}", "").strip()
    return subwords


def _join(subwords: Iterable[str], are_bytes: bool) -> str:
    if not are_bytes:
        return "".join(subwords).replace(SPACE, " ")
    return bytes(int(byte[3:5], 16) for byte in subwords).decode("utf-8", "replace")


def _bytes_of(character: str) -> str:
    return " ".join(f"<0x{byte:02X}>" for byte in character.encode())


def learn_bpe(lines: Iterable[str], operations: int, path: StrPath) -> None:
    """Write at most ``operations`` merges of a text in subword-nmt's format, reproducibly.

    Hugging Face's tokenizers find subword-nmt's merges in a fraction of its time and memory. They
    differ only where pairs are equally frequent. Of more than :data:`MOST_WORDS` different words,
    those that occur once do not count.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    os.environ.setdefault(*NO_THREADS)
    with Progress("counting words") as progress:
        counts = Counter(word for line in progress.each(lines) for word in line.split())
    if len(counts) > MOST_WORDS:
        counts = Counter({word: count for word, count in counts.items() if count > 1})
    alphabet = sorted(set[str]().union(*counts))
    ends = [f"{character}{WORD_END}" for character in alphabet]
    learner = Tokenizer(models.BPE(end_of_word_suffix=WORD_END))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + len(ends) + operations,
        min_frequency=2,
        special_tokens=ends,  # in order
        end_of_word_suffix=WORD_END,
        show_progress=False,
    )

    def text() -> Iterator[str]:
        while counts:  # emptied to save memory
            word, count = counts.popitem()
            for start in range(0, count, REPEATED):
                yield f"{word} " * min(REPEATED, count - start)

    learner.train_from_iterator(text(), trainer)
    # Two merges with one result count once in vocab_size.
    merges = json.loads(learner.to_str())["model"]["merges"][:operations]
    with writing(path) as file:
        file.write("#version: 0.2\n")
        file.writelines(f"{left} {right}\n" for left, right in merges)


class BytePairEncoder:
    """Byte-pair encoding of a line by a file of merges."""

    def __init__(self, codes: StrPath) -> None:
        from subword_nmt.apply_bpe import BPE

        with open(codes, encoding="utf-8") as file:
            self.bpe = BPE(file)

    def __call__(self, line: str) -> str:
        if len(self.bpe.cache) > REMEMBERED_WORDS:
            self.bpe.cache = {}  # another thread may read the old one
        return str(self.bpe.process_line(line))


def train_sentencepiece(
    lines: Iterable[str], vocabulary_size: int, prefix: StrPath, **options: Any
) -> None:
    """Train with SentencePieceTrainer's ``options``; write ``prefix.model``, ``prefix.vocab``."""
    import sentencepiece

    model = io.BytesIO()  # a model file would contain its name
    text = chain.from_iterable(map(_learnable, lines))
    options |= {"sentence_iterator": text, "model_writer": model, "minloglevel": 2}
    size = max(vocabulary_size, 3)  # to fewer it has no such message
    try:
        sentencepiece.SentencePieceTrainer.train(vocab_size=size, **options)
    except RuntimeError as error:
        least = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        if least is None:
            raise
        many = f"the characters of the text and SentencePiece's symbols are {least[1]} already"
        raise UsageError(f"--vocabulary-size {vocabulary_size}: {many}; give more") from None
    Path(f"{prefix}.model").write_bytes(model.getvalue())
    trained = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    with writing(f"{prefix}.vocab") as vocabulary:
        for number in range(trained.get_piece_size()):
            vocabulary.write(f"{trained.id_to_piece(number)}\t{trained.get_score(number):g}\n")


def _learnable(line: str) -> Iterator[str]:
    """Yield what SentencePiece learns from a line: no long words, no :data:`NOT_LEARNED`."""
    line = NOT_LEARNED.sub(" ", line)
    for start in range(0, len(line), WORD_LENGTH):
        yield line[start : start + WORD_LENGTH]


class SentencePieceEncoder:
    """SentencePiece encoding of a line by a trained model."""

    def __init__(self, model: StrPath) -> None:
        import sentencepiece

        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
        # Older models have no bytes, and a mark in the text is a space to them.
        self.has_bytes = self.processor.is_byte(self.processor.piece_to_id("<0x00>"))

    def __call__(self, line: str) -> str:
        if SPACE in line and self.has_bytes:
            return split_marks(self, line)
        return " ".join(self.processor.encode(line, out_type=str))


def split_marks(split: Callable[[str], str], text: str) -> str:
    """Return SentencePiece's subwords of text with its mark, which becomes bytes, not a space."""
    subwords = split(text.replace(SPACE, STAND_IN))
    return subwords.replace(_bytes_of(STAND_IN), _bytes_of(SPACE))


def without_space(split: Callable[[str], str], text: str) -> str:
    """Return the subwords, of SentencePiece or WordPiece, of text that no space precedes."""
    for before in (STAND_IN, "a", text[0]):  # to WordPiece unknown characters hide the text
        subwords = split(before + text).replace(_bytes_of(STAND_IN), STAND_IN)
        if after := subwords.partition(f"{before} ")[2]:
            return after
    return split(text)


def learn_wordpiece(
    lines: Callable[[], Iterable[str]],
    vocabulary_size: int,
    cased: bool,
    path: StrPath,
    accents: bool = False,
) -> None:
    """Write a vocabulary like BERT's ``vocab.txt``, reproducibly; ``lines()`` is read twice."""
    from tokenizers import trainers

    learner = bert_tokenizer(None, cased, accents)
    characters = Counter[str]()
    for line in lines():
        characters.update(learner.normalizer.normalize_str(line))
    usual = sorted(characters, key=lambda character: (-characters[character], character))
    alphabet = sorted(character for character in usual[:ALPHABET] if not character.isspace())
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[*BERT_SYMBOLS, *alphabet, *(CONTINUED + c for c in alphabet)],  # order
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=CONTINUED,
        show_progress=False,
    )
    learner.train_from_iterator(lines(), trainer)
    subwords = learner.get_vocab()
    with writing(path) as file:
        file.writelines(f"{subword}\n" for subword in sorted(subwords, key=subwords.get))


def read_vocabulary(path: StrPath) -> list[str]:
    """Return the subwords of a file such as BERT's ``vocab.txt``; UsageError for other files."""
    subwords = read_file(path)
    if UNKNOWN not in subwords or any(len(line.split()) != 1 for line in subwords):
        form = f"one subword per line, {UNKNOWN} among them, like BERT's vocab.txt"
        raise UsageError(f"{path}: no vocabulary of WordPiece, which has {form}")
    return subwords


class WordPieceEncoder:
    """WordPiece encoding of a line by a vocabulary file."""

    def __init__(self, vocabulary: StrPath, cased: bool, accents: bool = False) -> None:
        subwords = {subword: number for number, subword in enumerate(read_vocabulary(vocabulary))}
        self.tokenizer = bert_tokenizer(subwords, cased, accents)

    def __call__(self, line: str) -> str:
        return " ".join(self.tokenizer.encode(line, add_special_tokens=False).tokens)


def bert_tokenizer(vocabulary: dict[str, int] | None, cased: bool, accents: bool = False) -> Any:
    """Return BERT's tokenizer with ``{subword: number}``, or with None to learn them."""
    os.environ.setdefault(*NO_THREADS)
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    options = {"unk_token": UNKNOWN, "continuing_subword_prefix": CONTINUED}
    built = Tokenizer(
        models.WordPiece(vocab=vocabulary, max_input_chars_per_word=WORD_LENGTH, **options)
    )
    built.normalizer = normalizers.BertNormalizer(
        lowercase=not cased, strip_accents=False if accents else None, clean_text=not accents
    )
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return built
