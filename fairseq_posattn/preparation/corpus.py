"""What is particular to a data set for classification."""

from collections.abc import Callable
from dataclasses import dataclass

from fairseq_posattn.preparation.pipeline import folds

INPUTS = ("input0", "input1")


@dataclass(frozen=True)
class Corpus:
    """A data set for classification, from its publication to words.

    Attributes:
        summary: one line for ``--help``.
        source: what ``--source`` may hold, for ``--help``.
        alternatives: the ways in which it is published; see :func:`sources.obtain_any`.
        splits: of an archive and the parsed options, functions that give examples, by the name of
            their split: train, valid and test; train and test; or all.
        words: tokenises a text.
        labels: of the options, the classes in the order of their numbers; None: those that there
            are, in alphabetical order.
        published: of the options, how many examples each split has where that is known.
        cross_validated: scores are means of ten folds.
        pairs: examples are pairs of sentences.
        scored: examples have a real number as well.
        min_count: how often a word without a vector must occur in training to be in the dictionary.
        training: flags of fairseq-train for what the papers learn of it, if not its classes.
        derive: called with a folder of text, writes more files into it.
        flag: an option of its own, on which the text depends, and its help.
    """

    summary: str
    source: str
    alternatives: tuple
    splits: Callable
    words: Callable
    labels: Callable
    published: Callable
    cross_validated: bool = False
    pairs: bool = False
    scored: bool = False
    min_count: int = 1
    training: tuple = ()
    derive: Callable = lambda folder: None
    flag: tuple | None = None

    @property
    def inputs(self):
        return INPUTS if self.pairs else INPUTS[:1]

    @property
    def kinds(self):
        """The endings of the text files."""
        return (*self.inputs, "label", "score") if self.scored else (*self.inputs, "label")

    @property
    def parts(self):
        """The folders, relative to the destination, each of which fairseq reads as a data set."""
        return [f"fold{k}" for k in range(folds.FOLDS)] if self.cross_validated else ["."]

    @property
    def texts(self):
        """The folders of text that belong to :attr:`parts`."""
        return [f"{part}/text".removeprefix("./") for part in self.parts]
