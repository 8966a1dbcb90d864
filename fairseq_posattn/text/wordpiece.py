"""WordPiece as in BERT (Devlin et al., 2019), by Hugging Face's tokenizers: ``un ##aff ##able``.

Text is split at spaces and punctuation and, unless cased, lower-cased without accents. Each word
is split greedily into the longest subwords of the vocabulary; otherwise it is ``[UNK]``.
"""

import os
from collections import Counter

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.text.lines import read_file

CONTINUED = "##"
UNKNOWN = "[UNK]"
SPECIAL = ("[PAD]", UNKNOWN, "[CLS]", "[SEP]", "[MASK]")  # not used by fairseq
ALPHABET = 1000  # characters of a learned vocabulary, as in BERT's


def learn_wordpiece(lines, vocabulary_size, cased, path):
    """Learn a vocabulary and write it like BERT's ``vocab.txt``, reproducibly.

    Args:
        lines: a function that returns the text, which is read twice.
        vocabulary_size: number of subwords, if the text has as many.
    """
    from tokenizers import trainers

    learner = tokenizer(None, cased)
    characters = Counter()
    for line in lines():
        characters.update(learner.normalizer.normalize_str(line))
    usual = sorted(characters, key=lambda character: (-characters[character], character))
    alphabet = sorted(character for character in usual[:ALPHABET] if not character.isspace())
    # The library numbers other symbols in random order, which decides between equally frequent
    # pairs.
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
    """Return the subwords of a file such as BERT's ``vocab.txt``, in its order.

    Raises:
        UsageError: it is not such a file.
    """
    pieces = read_file(path)
    if UNKNOWN not in pieces or any(len(piece.split()) != 1 for piece in pieces):
        raise UsageError(
            f"{path}: no vocabulary of WordPiece, which has one subword per line, {UNKNOWN} among "
            "them, like BERT's vocab.txt"
        )
    if len(set(pieces)) < len(pieces):
        [(twice, _)] = Counter(pieces).most_common(1)
        raise UsageError(f"{path}: {twice!r} stands in the vocabulary twice")
    return pieces


class WordPieceEncoder:
    """WordPiece encoding of a line by a vocabulary file."""

    def __init__(self, vocabulary, cased):
        pieces = {piece: number for number, piece in enumerate(read_vocabulary(vocabulary))}
        self.tokenizer = tokenizer(pieces, cased)

    def __call__(self, line):
        return " ".join(self.tokenizer.encode(line, add_special_tokens=False).tokens)


def tokenizer(pieces, cased):
    """Return BERT's tokenizer with a vocabulary, or with None to learn one.

    Raises:
        UsageError: tokenizers is not installed.
    """
    # Its threads must not run where worker processes are forked.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
    except ImportError:
        raise UsageError(
            "--subwords wordpiece needs the package tokenizers: pip install tokenizers, or give "
            "--subwords sentencepiece"
        ) from None
    options = {} if pieces is None else {"vocab": pieces}
    model = models.WordPiece(**options, unk_token=UNKNOWN, continuing_subword_prefix=CONTINUED)
    built = Tokenizer(model)
    built.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    built.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return built
