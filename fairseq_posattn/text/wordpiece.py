"""WordPiece as in BERT (Devlin et al., 2019), by Hugging Face's tokenizers: ``un ##aff ##able``.

Text is split at spaces and around punctuation and, unless it is cased, put in small letters without
accents. A word is then the longest piece of the vocabulary that it begins with, and so on with the
rest of it, whose pieces begin with ``##``; one that cannot be made of pieces is ``[UNK]``.
"""

import os
from collections import Counter

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.text.lines import read_file

CONTINUED = "##"
UNKNOWN = "[UNK]"
SPECIAL = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")  # fairseq has marks of its own
# Characters that a learned vocabulary has, the most frequent ones; BERT's has as many.
ALPHABET = 1000


def learn_wordpiece(lines, vocabulary_size, cased, path):
    """Write a vocabulary, a piece a line as in BERT's ``vocab.txt``; the same of the same lines.

    Args:
        lines: a function that gives the text, which is read twice.
        vocabulary_size: pieces, if the text has as many.
    """
    from tokenizers import trainers

    learner = tokenizer(None, cased)
    characters = Counter()
    for line in lines():
        characters.update(learner.normalizer.normalize_str(line))
    usual = sorted(characters, key=lambda character: (-characters[character], character))
    alphabet = sorted(character for character in usual[:ALPHABET] if not character.isspace())
    # What is not named first gets its number in another order each time, and which of two equally
    # frequent pairs becomes a piece goes by their numbers.
    named = [*alphabet, *(CONTINUED + character for character in alphabet)]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        special_tokens=[*SPECIAL, *named],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        continuing_subword_prefix=CONTINUED,
        show_progress=False,
    )
    learner.train_from_iterator(lines(), trainer)
    pieces = learner.get_vocab()
    with writing(path) as file:
        file.writelines(f"{piece}\n" for piece in sorted(pieces, key=pieces.get))


def read_vocabulary(path):
    """The pieces in a file such as BERT's ``vocab.txt``, in its order.

    Raises:
        UsageError: it is no such file.
    """
    pieces = read_file(path)
    if UNKNOWN not in pieces or any(len(piece.split()) != 1 for piece in pieces):
        raise UsageError(
            f"{path}: no vocabulary of WordPiece, which has a piece a line, {UNKNOWN} among them, "
            "as BERT's vocab.txt"
        )
    if len(set(pieces)) < len(pieces):
        [(twice, _)] = Counter(pieces).most_common(1)
        raise UsageError(f"{path}: {twice!r} stands in the vocabulary twice")
    return pieces


class WordPieceEncoder:
    """Splits a line into the pieces of a vocabulary, a file, with spaces between."""

    def __init__(self, vocabulary, cased):
        pieces = {piece: number for number, piece in enumerate(read_vocabulary(vocabulary))}
        self.tokenizer = tokenizer(pieces, cased)

    def __call__(self, line):
        return " ".join(self.tokenizer.encode(line, add_special_tokens=False).tokens)


def tokenizer(pieces, cased):
    """BERT's, of a vocabulary or, to learn one, of None.

    Raises:
        UsageError: tokenizers is not installed.
    """
    # Lines are shared out among processes, which its threads must not be in the way of.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    except ImportError:
        raise UsageError(
            "--subwords wordpiece takes the package tokenizers: pip install tokenizers, or give "
            "--subwords sentencepiece"
        ) from None
    options = {} if pieces is None else {"vocab": pieces}
    model = models.WordPiece(**options, unk_token=UNKNOWN, continuing_subword_prefix=CONTINUED)
    built = Tokenizer(model)
    built.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return built
