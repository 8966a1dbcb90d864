"""Subword segmentations: what is learned from the training text, and what splits text by it."""

import hashlib
import re
import shutil
from itertools import islice
from math import ceil

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.text import subwords
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.vocabulary import SPECIAL

# SentencePiece holds its training sentences in memory, and skips lines of over 4,192 bytes.
LEARN_FROM = 500_000
SENTENCE_END = re.compile(r"(?<=[.!?]) ")
MARKS = 3  # SentencePiece's own symbols, at the start of its vocabulary


class BytePairs:
    """Byte-pair encoding of tokenized text."""

    prefix = "bpe."  # of the segmented text files
    files = ("text/bpe.codes",)  # learned files; ``settings`` are the options that affect them
    lower = False  # text is not lowercased

    def __init__(self, options):
        self.settings = {"operations": options.bpe_operations}

    def learn(self, lines, work):
        """Write :attr:`files` to ``work``; ``lines()`` yields the training text each time."""
        subwords.learn_bpe(lines(), self.settings["operations"], work / self.files[0])

    def encoder(self, dest):
        """Return a function that splits a line by the files learned in ``dest``."""
        return subwords.BytePairEncoder(dest / self.files[0])


class SentencePieces:
    """SentencePiece's byte pairs of untokenized text, spaces included; see BytePairs."""

    prefix = "spm."
    files = ("text/spm.model", "text/spm.vocab")
    lower = False

    def __init__(self, options):
        flag = "--cased" if options.cased else "--wordpiece-vocabulary"
        if options.cased or options.wordpiece_vocabulary:
            raise UsageError(f"{flag}: needs --subwords wordpiece")
        self.settings = {"vocabulary_size": options.vocabulary_size}

    def learn(self, lines, work):
        subwords.train_sentencepiece(
            _sample(lines)(),
            self.settings["vocabulary_size"],
            work / "text/spm",
            # Text must come back unchanged, since summaries are scored against their references.
            normalization_rule_name="identity",
            hard_vocab_limit=False,  # a quick look may have fewer subwords
            # A unigram model's candidates have varied right contexts. In tokenized text only
            # spaces follow words, so it would lack them.
            model_type="bpe",
            character_coverage=1.0,
        )

    def encoder(self, dest):
        return subwords.SentencePieceEncoder(dest / self.files[0])

    def vocabulary(self, dest):
        """Return all subwords, without special symbols."""
        return [line.partition("\t")[0] for line in file_lines(dest / self.files[1])][MARKS:]


class WordPieces:
    """BERT's WordPiece, with a learned or a given vocabulary; see BytePairs."""

    prefix = "wordpiece."
    files = ("text/vocab.txt",)

    def __init__(self, options):
        self.given, self.cased = options.wordpiece_vocabulary, options.cased
        self.lower = not self.cased
        self.settings = {"vocabulary_size": options.vocabulary_size, "cased": self.cased}
        if self.given:
            subwords.read_vocabulary(self.given)
            digest = hashlib.sha256(self.given.read_bytes()).hexdigest()
            self.settings = {"vocabulary": digest, "cased": self.cased}

    def learn(self, lines, work):
        if self.given:
            shutil.copyfile(self.given, work / self.files[0])
        else:
            size = self.settings["vocabulary_size"]
            subwords.learn_wordpiece(_sample(lines), size, self.cased, work / self.files[0])

    def encoder(self, dest):
        return subwords.WordPieceEncoder(dest / self.files[0], self.cased)

    def vocabulary(self, dest):
        known = subwords.read_vocabulary(dest / self.files[0])
        return [one for one in known if one not in (*subwords.BERT_SYMBOLS, *SPECIAL)]


KINDS = {"subword_nmt": BytePairs, "sentencepiece": SentencePieces, "wordpiece": WordPieces}


def _sample(lines):
    """Return a function that yields the sentences to learn from, the same each time."""

    def sentences():
        for line in lines():
            yield from SENTENCE_END.split(line)

    step = ceil(sum(1 for _ in sentences()) / LEARN_FROM)
    say("learning subwords" + (f" from every {step}th sentence" if step > 1 else ""))
    return lambda: islice(sentences(), 0, None, step)
