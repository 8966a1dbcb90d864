"""Subword units: byte-pair encoding (Sennrich et al., 2016) and SentencePiece."""

import io
import re
import sys
from collections import Counter
from contextlib import nullcontext, redirect_stderr
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import Progress

SPACE = "\u2581"  # SentencePiece's mark where a space was
REMEMBERED_WORDS = 200_000  # cached per process, so that memory does not grow with the text


def count_words(lines):
    """Return the counts of the words, holding the vocabulary in memory, never the text."""
    counts = Counter()
    with Progress("counting words") as progress:
        for line in lines:
            counts.update(line.split())
            progress.add(1)
    return counts


def learn_bpe(word_counts, operations, codes_file):
    """Write ``operations`` merges to an open text file; empties ``word_counts`` to save memory."""
    from subword_nmt.learn_bpe import learn_bpe

    def dictionary():
        while word_counts:
            word, count = word_counts.popitem()
            yield f"{word} {count}\n"

    # It draws a progress bar even without a terminal.
    with nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()):
        learn_bpe(dictionary(), codes_file, operations, is_dict=True)


class BytePairEncoder:
    """Byte-pair encoding of a line by a file of merges."""

    def __init__(self, codes):
        from subword_nmt.apply_bpe import BPE

        with open(codes, encoding="utf-8") as file:
            self.bpe = BPE(file)

    def __call__(self, line):
        if len(self.bpe.cache) > REMEMBERED_WORDS:
            self.bpe.cache.clear()
        return self.bpe.process_line(line)


def train_sentencepiece(lines, vocabulary_size, prefix, **options):
    """Train a model on an iterable of lines and write ``prefix.model`` and ``prefix.vocab``.

    Args:
        options: arguments of ``SentencePieceTrainer.train``, for instance ``model_type``.

    Raises:
        UsageError: the text has more characters than ``vocabulary_size``.
    """
    import sentencepiece

    model = io.BytesIO()  # a model file would contain its name
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            vocab_size=vocabulary_size,
            minloglevel=2,
            **options,
        )
    except RuntimeError as error:
        least = re.search(r"required_chars\. \d+ vs (\d+)", str(error))
        if least is None:
            raise
        raise UsageError(
            f"--vocabulary-size {vocabulary_size}: a piece for each character of the text, and "
            f"SentencePiece's symbols, are {least[1]} already; give more"
        ) from None
    Path(f"{prefix}.model").write_bytes(model.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    with writing(f"{prefix}.vocab") as vocabulary:
        for number in range(pieces.get_piece_size()):
            vocabulary.write(f"{pieces.id_to_piece(number)}\t{pieces.get_score(number):g}\n")


class SentencePieceEncoder:
    """SentencePiece encoding of a line by a trained model."""

    def __init__(self, model):
        import sentencepiece

        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model))

    def __call__(self, line):
        return " ".join(self.processor.encode(line, out_type=str))


def whole_words(pieces: str, subwords: str | None) -> str:
    """Return the words that subwords stand for, both with spaces between.

    Args:
        subwords: ``subword_nmt`` ("@@ " within words), ``sentencepiece`` ("\u2581" before words) or
            ``wordpiece`` ("##" within words); anything else for words.
    """
    if subwords == "subword_nmt":
        return f"{pieces} ".replace("@@ ", "").rstrip()
    if subwords == "sentencepiece":
        return pieces.replace(" ", "").replace(SPACE, " ").strip()
    if subwords == "wordpiece":
        return f" {pieces}".replace(" ##", "").strip()
    return pieces
