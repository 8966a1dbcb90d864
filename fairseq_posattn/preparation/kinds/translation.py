"""Preparation of translations and summaries, from published files to binarized data.

The text folder holds ``{train,valid,test}.{source,target}``, ``clean.train.*`` if pairs are cleaned
in words, the subword model, and all text in subwords with the prefix of its kind.
"""

import shlex
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from fairseq_posattn.common.cli import add_count
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation import binarize, report, round_trip
from fairseq_posattn.preparation.corpus import (
    SIDES,
    SPLITS,
    PairCorpus,
    Readers,
    SummarizationCorpus,
    TranslationCorpus,
)
from fairseq_posattn.preparation.parallel import Pair, map_pairs, write_pairs
from fairseq_posattn.preparation.pipeline import Preparation
from fairseq_posattn.preparation.segmentation import BY_TEXT, KINDS, Subwords
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.preparation.vectors import Vectors
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.manifest import read as read_manifest
from fairseq_posattn.text.moses import RATIO, is_clean
from fairseq_posattn.text.vocabulary import SPECIAL, write_dictionary

LONGEST = 1023  # tokens that fairseq's task of translation takes by default, besides the end symbol


def add_translation_options(corpus: TranslationCorpus, parser: ArgumentParser) -> None:
    merges = "byte-pair merges, learned on both languages together"
    default = corpus.bpe_operations if corpus.recipe else None
    other = f"{corpus.bpe_operations} with subword_nmt, else see --vocabulary-size"
    add_count(parser, "--bpe-operations", default, merges, other)
    corpus.add_options(parser)


def add_summarization_options(corpus: SummarizationCorpus, parser: ArgumentParser) -> None:
    kinds = ("sentencepiece", "wordpiece")
    about = "wordpiece: as for BERT and the published Mask Attention Networks, lowercased unless "
    about += "--cased; sentencepiece: of the unchanged text (default: %(default)s)"
    parser.add_argument("--subwords", choices=kinds, default=corpus.subwords, help=about)
    size, usual = "subwords to learn on texts and summaries together", 30_000
    add_count(parser, "--vocabulary-size", usual if corpus.recipe else None, size, BY_TEXT)
    vocabulary = (
        "with --subwords wordpiece: use this vocabulary, one subword a line, such as BERT's "
        "vocab.txt, as the published models do (default: learn one)"
    )
    parser.add_argument("--wordpiece-vocabulary", type=Path, metavar="FILE", help=vocabulary)
    cased = "with --subwords wordpiece: keep case (default: lowercase)"
    parser.add_argument("--cased", action="store_true", help=cased)
    parser.set_defaults(strip_accents=corpus.recipe is not None)
    most = "maximum subwords of a line; dman_summarization has 512 positions with the end symbol"
    add_count(parser, "--max-pieces", 511, most)
    corpus.add_options(parser)


class PairPreparation(Preparation):
    """Preparation of pairs: text, subwords of it, and the binarized pairs of both sides.

    Args:
        corpus: the description of the pairs.
        options: the parsed command line.
        kind: the subwords, of :data:`.segmentation.KINDS`; None for words.
        joined: use one dictionary for both sides.
        all_subwords: add the subwords that the training text lacks to the dictionary.
        described: further fields of ``preparation.json``.
    """

    def __init__(
        self,
        corpus: PairCorpus,
        options: Namespace,
        kind: Subwords | None,
        joined: bool,
        all_subwords: bool,
        **described: Any,
    ) -> None:
        super().__init__(corpus, options)
        self.kind, self.joined, self.all_subwords = kind, joined, all_subwords
        self.downloads = options.dest / "download"
        self.splits, self.sides = corpus.splits(options), corpus.sides
        self.prefix, self.is_own = kind.prefix if kind else "", corpus.recipe is None
        raw = [f"{name}.{side}" for side in self.sides for name in ("test", "text/sample")]
        self.texts = [*text_files(self.sides, splits=self.splits), *(raw if self.is_own else ())]
        if self.is_own and options.normalize != "none":
            described["normalize"] = options.normalize
        self.described = {**described, "joined": joined}

    def write_text(self, readers: Readers, work: Path) -> None:
        self.corpus.write(readers, work / "text", self.corpus, self.options)

    def run_stages(self, stages: Stages, glove: Vectors | None) -> None:
        corpus, kind, train = self.corpus, self.kind, "train"
        if corpus.longest_words is not None:
            train = clean_in_words(stages, self.sides, corpus.longest_words, corpus.ratio)
        if kind:
            limits = {"longest": corpus.longest, "ratio": corpus.ratio}
            options, splits = self.options, self.splits
            run_subwords(stages, self.sides, splits, kind, options, train=train, **limits)
        pair = "-".join(self.sides)
        outputs = [f"dict.{side}.txt" for side in self.sides]
        for split, side in product(self.splits, self.sides):
            outputs += [f"{split}.{pair}.{side}.{ending}" for ending in ("bin", "idx")]
        stages.run("binarizing", outputs, self.binarize, joined=self.joined)

    def binarize(self, work: Path) -> None:
        source, target = self.sides
        flags: dict[str, object] = {"source_lang": source, "target_lang": target}
        flags["joined_dictionary"] = self.joined
        if self.kind and self.all_subwords:
            flags["srcdict"] = dictionary = work / "dictionary.txt"
            # fairseq pads dictionaries with such words to a multiple of 8, for speed on GPUs.
            words = self.kind.vocabulary(work)
            words += [f"madeupword{n:04}" for n in range(-(len(SPECIAL) + len(words)) % 8)]
            write_dictionary(dictionary, dict.fromkeys(words, 1))
            if not self.joined:  # names and quotations are in the other language
                flags["tgtdict"] = dictionary
        flags |= {f"{s}pref": work / f"text/{self.prefix}{s}" for s in self.splits}
        binarize.preprocess(work, self.options.jobs, say, **flags)

    def describe(self, folder: Path) -> dict[str, Any]:
        counted: dict[str, Any] = {"examples": self._count(folder)}
        if self.is_own:
            names = ("task", "word_rule", "subwords")
            fields = {name: getattr(self.corpus, name) for name in names} | self.described
            rules = Manifest(corpus=self.corpus.name, languages=self.sides, **fields)
            counted["round_trip"] = round_trip.measure(folder, replace(rules, longest=None))
        return counted

    def _count(self, folder: Path) -> dict[str, int]:
        files = {s: folder / f"text/{self.prefix}{s}.{self.sides[0]}" for s in self.splits}
        return {split: report.count_lines(file) for split, file in files.items()}

    def report(self) -> list[str]:
        corpus, dest, sides = self.corpus, self.dest, self.sides
        if not self.is_own:
            counts = self._count(dest)
            if corpus.longest or corpus.longest_words:
                counts = {"raw": report.count_lines(dest / f"text/train.{sides[0]}"), **counts}
            report.report_counts(counts, corpus.published, self.options.limit, "pairs")
            return report.next_commands(corpus, dest)
        texts = {split: _text_pairs(dest, f"{self.prefix}{split}", sides) for split in SPLITS}
        most = getattr(self.options, "max_pieces", LONGEST)
        report.report_splits(texts, sides, lambda pair: pair[0], most)  # compared by their sources
        if rules := read_manifest(dest):
            round_trip.report(rules.round_trip)
        train = report.next_commands(corpus, dest)
        saved, text = f"checkpoints/{dest.name}", f"{report.shown(dest)}/test"
        words = ["posattn", "summarize" if sides == SIDES else "translate", saved]
        words += ["--input", f"{text}.{sides[0]}", "--output", f"{saved}/test.{sides[1]}"]
        print(f"then, on the raw test set,\n    {shlex.join(words)}")
        return train


class TranslationPreparation(PairPreparation):
    """Preparation of sentences and their translations."""

    def __init__(self, corpus: TranslationCorpus, options: Namespace) -> None:
        kind = KINDS[corpus.subwords](options) if corpus.subwords else None
        joined = corpus.recipe is not None or not options.separate_dictionaries
        whole = corpus.subwords == "sentencepiece"
        super().__init__(corpus, options, kind, joined, whole, lower=corpus.lower)


class SummarizationPreparation(PairPreparation):
    """Preparation of texts and their summaries."""

    def __init__(self, corpus: SummarizationCorpus, options: Namespace) -> None:
        kind, corpus = KINDS[options.subwords](options), replace(corpus, subwords=options.subwords)
        described = {"lower": kind.lower, "cased": not kind.lower, "accents": kind.accents}
        super().__init__(corpus, options, kind, True, True, longest=options.max_pieces, **described)


def clean_in_words(stages: Stages, sides: Sequence[str], longest: int, ratio: float | None) -> str:
    """Drop training pairs of too many words or of another length ratio; return the text's name."""

    def clean(work: Path) -> None:
        pairs = _text_pairs(work, "train", sides)
        kept = (pair for pair in pairs if is_clean(pair, longest, ratio))
        write_pairs(kept, work / "text/clean.train", sides)

    outputs = text_files(sides, "clean.", ["train"])
    stages.run("cleaning", outputs, clean, longest_words=longest, ratio=ratio)
    return "clean.train"


def run_subwords(
    stages: Stages,
    sides: Sequence[str],
    splits: Sequence[str],
    kind: Subwords,
    options: Namespace,
    train: str = "train",
    longest: int | None = None,
    ratio: float | None = RATIO,
) -> None:
    """Learn subwords on the text called ``train``, all sides together, and split all text.

    Training pairs of more than ``longest`` subwords or of a larger ``ratio`` are dropped.
    """
    most = getattr(options, "max_pieces", None)

    def learn(work: Path) -> None:
        files = [work / name for name in text_files(sides, "", [train])]
        kind.learn(lambda: chain.from_iterable(map(file_lines, files)), work)

    def apply(work: Path) -> None:
        encoder = kind.encoder(work)
        for split in splits:
            pairs: Iterable[Pair]
            pairs = _text_pairs(work, train if split == "train" else split, sides)
            pairs = map_pairs([encoder] * 2, pairs, options.jobs, f"splitting {split}")
            if longest is not None and split == "train":
                pairs = (pair for pair in pairs if is_clean(pair, longest, ratio))
            if most is not None:
                pairs = _cut(pairs, most, split, sides)
            write_pairs(pairs, work / f"text/{kind.prefix}{split}", sides)

    stages.run("learning subwords", kind.files, learn, **kind.settings)
    outputs = text_files(sides, kind.prefix, splits)
    stages.run("subwords", outputs, apply, max_pieces=most, longest=longest, ratio=ratio)


def _cut(pairs: Iterable[Pair], most: int, split: str, sides: Sequence[str]) -> Iterator[list[str]]:
    """Yield pairs cut to ``most`` subwords a side; print at the end how many lines were cut."""
    number, cut = 0, Counter[str]()
    for pair in pairs:
        number += 1
        texts = [line.split(" ", most) for line in pair]
        cut.update(side for side, text in zip(sides, texts, strict=True) if len(text) > most)
        yield [" ".join(text[:most]) for text in texts]
    for side, count in cut.items():
        share = f"{count:,} of {number:,} lines, {count / number:.1%}"
        say(f"warning: {split}.{side}: cut after {most} subwords ({share}): raise --max-pieces")


def text_files(sides: Sequence[str], prefix: str = "", splits: Sequence[str] = SPLITS) -> list[str]:
    return [f"text/{prefix}{split}.{side}" for split in splits for side in sides]


def _text_pairs(folder: Path, name: str, sides: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(file_lines(folder / f"text/{name}.{side}") for side in sides), strict=True)
