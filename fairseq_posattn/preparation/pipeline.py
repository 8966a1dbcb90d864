"""The preparation of a data set, in the same steps for every kind."""

from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.binarize import binarize_files
from fairseq_posattn.preparation.corpus import SPLITS, Readers
from fairseq_posattn.preparation.download import obtain_any
from fairseq_posattn.preparation.like import Template
from fairseq_posattn.preparation.stages import Stages, check_replaced, write_manifests
from fairseq_posattn.preparation.vectors import Vectors, find_vectors, write_vocabulary
from fairseq_posattn.text.vocabulary import COVERAGE, VECTORS, count_words


class Preparation:
    """A data set and the options of its preparation; each kind is a subclass."""

    columns: Mapping[str, Sequence[str]]  # binarized columns of text, by name of the dictionary
    binarized: Sequence[str]  # outputs of the stage that binarizes them
    quiet: Collection[str] = ()  # dictionaries without lines about their sizes
    splits: Sequence[str] = SPLITS
    texts: Sequence[str] = ("text",)  # outputs of the stage that reads the published files
    parts: Sequence[str] = (".",)  # folders of binarized data, each with its text/

    def __init__(self, corpus: Any, options: Namespace) -> None:
        self.corpus, self.options, self.dest = corpus, options, options.dest
        self.downloads = options.dest.parent / "download"
        # Settings on which the text depends
        flags = {name: getattr(options, name[2:].replace("-", "_")) for name in corpus.flags}
        self.settings = {"word_rule": corpus.word_rule, **flags, **corpus.settings(options)}
        self.described: dict[str, Any] = {}  # fields of preparation.json
        self.template: Template | None = options.template

    def prepare(self) -> list[str]:
        """Prepare the data; return the words of the command that trains on them."""
        corpus, options = self.corpus, self.options
        local = corpus.local_files(options)
        if options.source:
            local = obtain_any(corpus.alternatives, options.source, self.downloads)

        def write_text(work: Path) -> None:
            archive = local or obtain_any(corpus.alternatives, None, self.downloads)
            self.write_text(corpus.read(archive, options), work)

        with Stages(options.dest, options.limit, options.force).locked() as stages:
            # Again: another run may have made a corpus during the wait.
            check_replaced(options.dest, corpus, vars(options).values(), options.force)
            dimensions = getattr(options, "glove_dim", None)
            glove = find_vectors(getattr(options, "glove", None), self.downloads, dimensions)
            source = local and local.fingerprint()
            stages.run("text", self.texts, write_text, source, **self.settings)
            self.run_stages(stages, glove)
            write_manifests(stages, corpus, count=self.describe, parts=self.parts, **self.described)
        return self.report()

    def write_text(self, readers: Readers, work: Path) -> None:
        """Write the examples as :attr:`texts` in the folder ``work``."""
        raise NotImplementedError

    def run_stages(self, stages: Stages, glove: Vectors | None) -> None:
        outputs = ["dict.txt", VECTORS, COVERAGE] if glove else ["dict.txt"]
        seed, least = self.options.seed, self.options.min_count

        def make(work: Path) -> None:
            counts = self.count_words(work)
            write_vocabulary(work, *counts, glove, least or self.corpus.min_count, seed)

        chosen = {"vectors": glove and [glove[0].fingerprint(), glove[1]], "seed": seed}
        stages.run("vocabulary", outputs, make, **chosen, min_count=least)
        stages.run("binarized data", self.binarized, self.binarize)

    def count_words(self, folder: Path) -> tuple[Counter[str], Counter[str]]:
        """Return the counts of the words of training, and of the other splits."""
        text, columns = folder / self.parts[0] / "text", self.columns["dict.txt"]
        files = ([text / f"{split}.{column}" for column in columns] for split in self.splits)
        train, *others = map(count_words, files)
        return train, sum(others, Counter())

    def binarize(self, work: Path) -> None:
        """Write all dictionaries but that of the words, and binarize :attr:`columns`.

        ``{part}/text/{split}.{column}`` becomes ``{part}/{column}/{split}``.
        """
        for dictionary, columns in self.columns.items():
            targets = {
                work / part / "text" / f"{split}.{column}": work / part / column / split
                for part, column, split in product(self.parts, columns, self.splits)
            }
            tell = (lambda line: None) if dictionary in self.quiet else say
            binarize_files(work, targets, dictionary, self.options.jobs, tell)

    def describe(self, folder: Path) -> dict[str, Any]:
        """Return the counted fields of ``preparation.json``."""
        raise NotImplementedError

    def report(self) -> list[str]:
        """Print counts and the commands that follow; return the words of the first."""
        raise NotImplementedError
