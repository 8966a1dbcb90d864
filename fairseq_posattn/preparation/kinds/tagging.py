"""Preparation of semantic roles, from published files to what sequence_tagging reads.

An example is a sentence with one of its predicates: ``words``, ``predicate`` (1 at its word, 0
elsewhere) and ``tags``. ``text/{split}.props`` has all sentences, for scoring.
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_posattn.common import files
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import report, vectors
from fairseq_posattn.preparation.corpus import Readers, TaggingCorpus
from fairseq_posattn.preparation.parallel import LineWriter
from fairseq_posattn.preparation.pipeline import Preparation
from fairseq_posattn.text.props import RoleSentence, read_props, readable, write_props
from fairseq_posattn.text.vocabulary import count_words, write_dictionary

FLAGS = {"0": 0, "1": 0}  # dictionary of ``predicate``


class TaggingPreparation(Preparation):
    """Preparation of sentences with semantic roles."""

    columns = {"dict.txt": ["words"], "flags.txt": ["predicate"], "tags.txt": ["tags"]}
    binarized = ("words", "predicate", "tags")

    def __init__(self, corpus: TaggingCorpus, options: Namespace) -> None:
        super().__init__(corpus, options)
        self.splits = list(corpus.predicates)
        self.settings = {"cased": options.cased, **self.settings}
        self.described["lower"] = not options.cased

    def write_text(self, readers: Readers, work: Path) -> None:
        (work / "text").mkdir()
        for split, read in readers.items():
            sentences = list(islice(read(), self.options.limit))
            _write_split(sentences, work / "text" / split, self.options.cased)

    def binarize(self, work: Path) -> None:
        text = work / "text"
        tags = Counter(count_words([text / "train.tags"]))
        for split in self.splits:  # tags that training lacks can be scored, if not predicted
            tags.update(dict.fromkeys(count_words([text / f"{split}.tags"]), 0))
        write_dictionary(work / "tags.txt", {tag: tags[tag] for tag in sorted(tags)})
        write_dictionary(work / "flags.txt", FLAGS)
        super().binarize(work)

    def describe(self, folder: Path) -> dict[str, Any]:
        roles = {split: folder / f"text/{split}.roles" for split in self.splits}
        examples = {split: report.count_lines(file) for split, file in roles.items()}
        return {"examples": examples, "features": vectors.features(folder)}

    def report(self) -> list[str]:
        corpus, limit, text = self.corpus, self.options.limit, self.dest / "text"
        sentences = {split: len(read_props(text / f"{split}.props")) for split in corpus.published}
        report.report_counts(sentences, corpus.published, limit, "sentences")
        examples = self.describe(self.dest)["examples"]
        report.report_counts(examples, corpus.predicates, limit, "predicates")
        return report.next_commands(corpus, self.dest)


def _write_split(sentences: Sequence[RoleSentence], prefix: Path, cased: bool) -> None:
    with LineWriter(prefix, ("roles", "words", "predicate", "tags")) as writer:
        for sentence in sentences:
            words = " ".join(sentence.words)
            for index, tags in sentence.examples():
                flags = ("1" if at == index else "0" for at in range(len(sentence.words)))
                words = words if cased else words.lower()
                roles = readable(sentence.words, index, tags)
                writer.write([roles, words, " ".join(flags), " ".join(tags)])
    if not writer.count:
        raise UsageError(f"there is no predicate for {prefix.name}: raise or drop --limit")
    files.write_text(f"{prefix}.props", "".join(write_props(s.roles for s in sentences)))
