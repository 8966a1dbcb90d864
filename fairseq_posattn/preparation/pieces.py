"""The pieces that articles and summaries are split into: SentencePiece's, or WordPiece as in BERT.

Each kind says what it learns from the training text, in which files, and what splits by them.
"""

import hashlib
import re
import shutil
from itertools import islice
from math import ceil

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.pairs import map_pairs, text_files, text_lines, write_pairs
from fairseq_posattn.text import wordpiece
from fairseq_posattn.text.subwords import SentencePieceEncoder, train_sentencepiece
from fairseq_posattn.text.vocabulary import SPECIAL

# SentencePiece holds what it learns from in memory, and skips lines of more than 4,192 bytes.
LEARN_FROM = 500_000
SENTENCE_END = re.compile(r"(?<=[.!?]) ")
MARKS = 3  # of SentencePiece's own, at the start of its vocabulary


class SentencePieces:
    """Byte-pair pieces of the text as it is, with its spaces: it can be put together again.

    Args:
        options: of the command line.

    Attributes:
        prefix: of the files of text in pieces.
        files: that the stage of learning makes.
        settings: all that these depend on beside the text.
        lower: whether capitals are made small.
    """

    prefix = "spm."
    files = ("text/spm.model", "text/spm.vocab")
    lower = False

    def __init__(self, options):
        for flag, given in (
            ("--wordpiece-vocabulary", options.wordpiece_vocabulary),
            ("--cased", options.cased),
        ):
            if given:
                raise UsageError(f"{flag} is for --subwords wordpiece")
        self.settings = {"vocabulary_size": options.vocabulary_size}

    def learn(self, sentences, work):
        """Make :attr:`files` in the folder ``work``.

        Args:
            sentences: a function that gives the training text, a sentence at a time.
        """
        train_sentencepiece(
            some(sentences)(),
            self.settings["vocabulary_size"],
            work / "text/spm",
            # Text comes back as it went in, so that summaries are scored against their references.
            normalization_rule_name="identity",
            hard_vocab_limit=False,  # of a quick look there may not be as many pieces
            # A unigram model would not have the words of tokenised text: its candidates are what
            # different letters follow, and there only spaces follow words.
            model_type="bpe",
            character_coverage=1.0,
        )

    def encoder(self, dest):
        """What splits a line into pieces, with what was learned in ``dest``."""
        return SentencePieceEncoder(dest / "text/spm.model")

    def pieces(self, dest):
        """All that there are, without marks such as that of unknown ones."""
        return [line.partition("\t")[0] for line in text_lines(dest / "text/spm.vocab")][MARKS:]


class WordPieces:
    """BERT's pieces, of a vocabulary that the user has or that is learned; see SentencePieces."""

    prefix = "wordpiece."
    files = ("text/vocab.txt",)

    def __init__(self, options):
        self.given, self.cased = options.wordpiece_vocabulary, options.cased
        wordpiece.tokenizer(None, self.cased)  # before anything is downloaded
        self.lower = not self.cased
        self.settings = {"vocabulary_size": options.vocabulary_size, "cased": self.cased}
        if self.given:
            wordpiece.read_vocabulary(self.given)
            digest = hashlib.sha256(self.given.read_bytes()).hexdigest()
            self.settings = {"vocabulary": digest, "cased": self.cased}

    def learn(self, sentences, work):
        path = work / "text/vocab.txt"
        if self.given:
            shutil.copyfile(self.given, path)
        else:
            size = self.settings["vocabulary_size"]
            wordpiece.learn_wordpiece(some(sentences), size, self.cased, path)

    def encoder(self, dest):
        return wordpiece.WordPieceEncoder(dest / "text/vocab.txt", self.cased)

    def pieces(self, dest):
        vocabulary = wordpiece.read_vocabulary(dest / "text/vocab.txt")
        return [piece for piece in vocabulary if piece not in (*wordpiece.SPECIAL, *SPECIAL)]


KINDS = {"sentencepiece": SentencePieces, "wordpiece": WordPieces}


def some(sentences):
    """As many of the sentences as pieces are learned from, the same each time."""
    step = ceil(sum(1 for _ in sentences()) / LEARN_FROM)
    say(f"learning pieces from every sentence in {step:,}" if step > 1 else "learning pieces")
    return lambda: islice(sentences(), 0, None, step)


def to_pieces(stages, sides, splits, kind, options):
    """The stages that learn pieces from the training text and split all text into them.

    Args:
        stages: :class:`.pipeline.stages.Stages`.
        sides: endings of the text files, of which the pieces are learned together.
        kind: of :data:`KINDS`.
        options: ``jobs`` and ``max_pieces``, to which lines are cut; None: they are not.
    """
    dest = stages.dest

    def training_sentences():
        for name in text_files(sides, splits=["train"]):
            for line in text_lines(dest / name):
                yield from SENTENCE_END.split(line)

    def learn(work):
        kind.learn(training_sentences, work)

    def apply(work):
        encoder = kind.encoder(dest)

        def encode(line):
            return " ".join(encoder(line).split(" ")[: options.max_pieces])

        for split in splits:
            plain = [text_lines(dest / name) for name in text_files(sides, splits=[split])]
            pairs = map_pairs(
                [encode] * 2, zip(*plain, strict=True), options.jobs, f"splitting {split}"
            )
            write_pairs(pairs, work / f"text/{kind.prefix}{split}", sides)

    stages.run("learning pieces", kind.files, learn, **kind.settings)
    in_pieces = text_files(sides, kind.prefix, splits)
    stages.run("pieces", in_pieces, apply, max_pieces=options.max_pieces)
