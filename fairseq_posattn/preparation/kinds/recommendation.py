"""Preparation of click logs, from published files to what news_recommendation reads.

A destination holds, binarized, ``titles/all``, in the order of the dictionary ``news.txt``, and
``history``, ``candidates`` and ``labels`` of each impression, whose names are in
``text/{split}.impressions``. Logs are streamed, one line at a time.
"""

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import chain
from pathlib import Path
from typing import Any
from unicodedata import category

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import map_lines, say
from fairseq_posattn.preparation import report, vectors
from fairseq_posattn.preparation.binarize import binarize_files
from fairseq_posattn.preparation.corpora.mind import UNLABELED, Impression
from fairseq_posattn.preparation.corpus import SPLITS, Readers, RecommendationCorpus
from fairseq_posattn.preparation.own_labels import UNSUITED
from fairseq_posattn.preparation.parallel import LineWriter
from fairseq_posattn.preparation.pipeline import Preparation
from fairseq_posattn.text.vocabulary import count_words, write_dictionary
from fairseq_posattn.text.words import PUBLISHED, unsuited_share

COLUMNS = ("history", "candidates", "labels")
LABELS = {"0": 0, "1": 0}  # dictionary of ``labels``


def add_options(corpus: RecommendationCorpus, parser: ArgumentParser) -> None:
    vectors.add_word_options(parser)
    about = "maximum share of clicked and shown articles that news.tsv lacks; these are left out "
    about += "and counted (default: %(default)s)"
    parser.add_argument(
        "--max-unknown", type=vectors.fraction, metavar="X", default=0.01, help=about
    )


class RecommendationPreparation(Preparation):
    """Preparation of the titles of news, and of what users were shown and clicked."""

    columns = {"news.txt": ["history", "candidates"], "labels.txt": ["labels"]}
    binarized = ("titles", *COLUMNS)
    texts = ("text", "news.txt")

    def __init__(self, corpus: RecommendationCorpus, options: Namespace) -> None:
        super().__init__(corpus, options)
        self.settings |= {"cased": options.cased, "max_unknown": options.max_unknown}
        self.described["lower"] = not options.cased

    def write_text(self, readers: Readers, work: Path) -> None:
        (work / "text").mkdir()
        impressions = dict(readers)
        news = self._write_titles(impressions.pop("titles")(), work)
        for split, read in impressions.items():
            _write_impressions(read(), work / "text" / split, news, self.options.max_unknown)

    def _write_titles(self, titles: Iterable[tuple[str, str]], work: Path) -> Collection[str]:
        """Write all titles, and the articles' names as a dictionary; return the names."""
        first: dict[str, str] = {}
        for name, title in titles:
            first.setdefault(name, title)
        rule, empty = PUBLISHED[self.corpus.word_rule], 0
        with writing(work / "text/titles.words") as file:
            for line in map_lines(rule, first.values(), self.options.jobs, "tokenizing titles"):
                empty += not line
                file.write(f"{line if self.options.cased else line.lower()}\n")
        # Words keep combining marks.
        letters = Counter(c for c in chain.from_iterable(first.values()) if category(c)[0] != "M")
        if (share := unsuited_share(letters, self.options.cased)) > UNSUITED:
            say(
                f"warning: {share:.1%} of the letters of titles do not suit words: in news.tsv put "
                "spaces between the words of scripts without spaces; for Turkish give --cased"
            )
        if empty:
            say(f"{empty:,} of {len(first):,} news have no words in their title")
        write_dictionary(work / "news.txt", dict.fromkeys(first, 0))
        return first.keys()

    def count_words(self, folder: Path) -> tuple[Counter[str], Counter[str]]:
        return count_words([folder / "text/titles.words"]), Counter()

    def binarize(self, work: Path) -> None:
        write_dictionary(work / "labels.txt", LABELS)
        self.splits = [split for split in (*SPLITS, UNLABELED) if _names(work, split).exists()]
        super().binarize(work)
        titles = {work / "text/titles.words": work / "titles/all"}
        binarize_files(work, titles, "dict.txt", self.options.jobs)

    def describe(self, folder: Path) -> dict[str, Any]:
        files = {split: _names(folder, split) for split in (*SPLITS, UNLABELED)}
        counts = {s: report.count_lines(file) for s, file in files.items() if file.exists()}
        return {"examples": counts, "features": vectors.features(folder)}

    def report(self) -> list[str]:
        counts, limit = self.describe(self.dest)["examples"], self.options.limit
        report.report_counts(counts, self.corpus.published, limit, "impressions")
        print(f"news: {report.count_lines(self.dest / 'text/titles.words'):,}")
        return report.next_commands(self.corpus, self.dest)


def _names(folder: Path, split: str) -> Path:
    return folder / f"text/{split}.impressions"


def _write_impressions(
    impressions: Iterable[Impression], prefix: Path, news: Collection[str], max_unknown: float
) -> None:
    """Write ``{prefix}.{column}`` of a split, without articles that are not ``news``."""
    emptied = references = missing = 0
    first = ""
    with LineWriter(prefix, (*COLUMNS, "impressions")) as writer:
        for impression in impressions:
            labels = map(str, impression.labels or [0] * len(impression.candidates))
            candidates = zip(impression.candidates, labels, strict=True)
            known = [(name, label) for name, label in candidates if name in news]
            named = (*impression.history, *impression.candidates)
            lacking = [name for name in named if name not in news]
            references += len(named)
            missing += len(lacking)
            if lacking and not first:
                first = f"{impression.location}: {lacking[0]}"
            if known:
                history = (name for name in impression.history if name in news)
                columns = (history, *zip(*known, strict=True), [impression.name])
                writer.write(list(map(" ".join, columns)))
            else:
                emptied += 1
    if missing > max_unknown * references:
        raise UsageError(
            f"{first} is not in news.tsv, as {missing:,} of {references:,} news that were clicked "
            "or shown are not; more than --max-unknown allows"
        )
    if missing:
        lacked = f"left out {missing:,} news that news.tsv lacks"
        say(f"{prefix.name}: {lacked}, and {emptied:,} impressions that showed no other")
    if not writer.count:
        fix = "raise or drop --limit; the last of two or more days of train is for validation"
        raise UsageError(f"no impression is left for {prefix.name}: {fix}")
