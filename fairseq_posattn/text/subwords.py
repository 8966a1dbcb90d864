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
# Words whose split is remembered, per process. Vocabularies grow with the text; memory must not.
REMEMBERED_WORDS = 200_000


def count_words(lines):
    """How often each word occurs. Holds the vocabulary in memory, never the text."""
    counts = Counter()
    with Progress("counting words") as progress:
        for line in lines:
            counts.update(line.split())
            progress.add(1)
    return counts


def learn_bpe(word_counts, operations, codes_file):
    """Write ``operations`` merges, learned from counted words, to an open text file."""
    from subword_nmt.learn_bpe import learn_bpe

    dictionary = io.StringIO("".join(f"{word} {count}\n" for word, count in word_counts.items()))
    # It draws a progress bar whether or not there is a terminal to draw it on.
    quiet = nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO())
    with quiet:
        learn_bpe(dictionary, codes_file, operations, is_dict=True)


class BytePairEncoder:
    """Splits the words of a line into the units that ``codes`` (a file of merges) makes of them."""

    def __init__(self, codes):
        from subword_nmt.apply_bpe import BPE

        with open(codes, encoding="utf-8") as file:
            self.bpe = BPE(file)

    def __call__(self, line):
        if len(self.bpe.cache) > REMEMBERED_WORDS:
            self.bpe.cache.clear()
        return self.bpe.process_line(line)


def train_sentencepiece(lines, vocabulary_size, prefix, **options):
    """Train a model on an iterable of lines; makes ``prefix.model`` and ``prefix.vocab``.

    The same lines make the same files, whatever they are called.

    Args:
        options: of ``SentencePieceTrainer.train``, for instance ``model_type``.

    Raises:
        UsageError: the text has more characters than there may be pieces.
    """
    import sentencepiece

    model = io.BytesIO()  # to a file, it would write the file's name into it
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
            f"SentencePiece's marks, are {least[1]} already: give more"
        ) from None
    Path(f"{prefix}.model").write_bytes(model.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    with writing(f"{prefix}.vocab") as vocabulary:
        for number in range(pieces.get_piece_size()):
            vocabulary.write(f"{pieces.id_to_piece(number)}\t{pieces.get_score(number):g}\n")


class SentencePieceEncoder:
    """Splits a line into the pieces of a trained model, with spaces between."""

    def __init__(self, model):
        import sentencepiece

        self.processor = sentencepiece.SentencePieceProcessor(model_file=str(model))

    def __call__(self, line):
        return " ".join(self.processor.encode(line, out_type=str))


def whole_words(pieces: str, subwords: str | None) -> str:
    """Words of which these are the pieces, both with spaces between.

    Args:
        subwords: ``subword_nmt`` ("@@ " within words), ``sentencepiece`` ("\u2581" before words) or
            ``wordpiece`` ("##" within words, as BERT's); else pieces are words.
    """
    if subwords == "subword_nmt":
        return f"{pieces} ".replace("@@ ", "").rstrip()
    if subwords == "sentencepiece":
        return pieces.replace(" ", "").replace(SPACE, " ").strip()
    if subwords == "wordpiece":
        return f" {pieces}".replace(" ##", "").strip()
    return pieces
