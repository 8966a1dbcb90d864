"""Preparation of translations and summaries, from published files to binarized data.

``text/`` has the splits, ``clean.train.*`` if pairs are cleaned in words, and all in subwords.
"""

import shlex
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, product
from pathlib import Path
from typing import Any

from fairseq_posattn.common.cli import add_count
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation import binarize, report, round_trip, segmentation
from fairseq_posattn.preparation.corpus import SPLITS, PairCorpus, Readers, SummarizationCorpus
from fairseq_posattn.preparation.like import checkpoints_of, unknown_tokens
from fairseq_posattn.preparation.parallel import Pair, map_pairs, write_pairs
from fairseq_posattn.preparation.pipeline import Preparation
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.preparation.vectors import Vectors
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.manifest import SIDES, Manifest
from fairseq_posattn.text.manifest import read as read_manifest
from fairseq_posattn.text.moses import is_clean
from fairseq_posattn.text.vocabulary import SPECIAL, write_dictionary

LONGEST = 1023  # tokens that fairseq's task of translation takes by default, besides the end symbol


def add_translation_options(corpus: Any, parser: ArgumentParser) -> None:
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
    usual = 30_000 if corpus.recipe else None
    size = "subwords to learn on texts and summaries together"
    add_count(parser, "--vocabulary-size", usual, size, segmentation.BY_TEXT)
    vocabulary = (
        "with --subwords wordpiece: use this vocabulary, one subword a line, such as BERT's "
        "vocab.txt, as the published models do (default: learn one)"
    )
    parser.add_argument("--wordpiece-vocabulary", type=Path, metavar="FILE", help=vocabulary)
    cased = "with --subwords wordpiece: keep case (default: lowercase)"
    parser.add_argument("--cased", action="store_true", help=cased)
    parser.set_defaults(strip_accents=corpus.recipe is not None)
    most = "maximum subwords of a line; dman_summarization has 512 positions with the end symbol"
    add_count(parser, "--max-pieces", segmentation.MOST_PIECES, most)
    corpus.add_options(parser)


class PairPreparation(Preparation):
    """Preparation of pairs: text, subwords of it, and the binarized pairs of both sides."""

    def __init__(self, corpus: PairCorpus, options: Namespace) -> None:
        if isinstance(corpus, SummarizationCorpus):
            corpus = replace(corpus, subwords=options.subwords)
            names = ["cased", "wordpiece_vocabulary", *([] if corpus.recipe else ["strip_accents"])]
            flags = [f"--{name.replace('_', '-')}" for name in names if getattr(options, name)]
            if flags and corpus.subwords != "wordpiece":
                raise UsageError(f"{flags[0]}: needs --subwords wordpiece; add that, or remove it")
        super().__init__(corpus, options)
        self.kind = kind = segmentation.subwords_of(corpus.subwords, options)
        self.joined = not getattr(options, "separate_dictionaries", False)
        self.downloads = options.dest / "download"
        self.most: int | None = getattr(options, "max_pieces", None)  # subwords of a line
        self.splits, self.sides = corpus.splits(options), corpus.sides
        self.prefix, self.is_own = segmentation.prefix_of(corpus.subwords), corpus.recipe is None
        raw = [f"{name}.{side}" for side in self.sides for name in ("test", "text/sample")]
        self.texts = [*self._files("", self.splits), *(raw if self.is_own else ())]
        self.described = {"lower": corpus.lower, "joined": self.joined}
        if kind and isinstance(corpus, SummarizationCorpus):
            self.described |= {"lower": kind.lower, "cased": not kind.lower}
            self.described |= {"longest": options.max_pieces, "accents": kind.accents}
        if self.is_own and options.normalize != "none":
            self.described["normalize"] = options.normalize
        if template := self.template:
            self.described |= template.text_fields()
            self.settings = {**self.settings, "like": template.digest(*self.sides)}

    def write_text(self, readers: Readers, work: Path) -> None:
        self.corpus.write(readers, work / "text", self.corpus, self.options)

    def run_stages(self, stages: Stages, glove: Vectors | None) -> None:
        self.split_text(stages)
        pair = "-".join(self.sides)
        outputs = [f"dict.{side}.txt" for side in self.sides]
        for split, side in product(self.splits, self.sides):
            outputs += [f"{split}.{pair}.{side}.{ending}" for ending in ("bin", "idx")]
        stages.run("binarizing", outputs, self.binarize, joined=self.joined)

    def split_text(self, stages: Stages) -> None:
        """Split all text into subwords, learned on both sides of the training text together.

        Training pairs that the corpus's limits of words or subwords exclude are left out.
        """
        corpus, kind, train = self.corpus, self.kind, "train"
        if corpus.longest_words is not None:
            train = "clean.train"
            limits = {"longest_words": corpus.longest_words, "ratio": corpus.ratio}
            stages.run("cleaning", self._files("", [train]), self._clean, **limits)
        if kind:
            learn, split = partial(self._learn, kind, train), partial(self._split, kind, train)
            files = [f"text/{name}" for name in kind.files]
            stages.run("learning subwords", files, learn, **kind.settings)
            limits = {"longest": corpus.longest, "ratio": corpus.ratio}
            outputs = self._files(self.prefix, self.splits)
            stages.run("subwords", outputs, split, max_pieces=self.most, **limits)

    def _files(self, prefix: str, splits: Sequence[str]) -> list[str]:
        return [f"text/{prefix}{split}.{side}" for split in splits for side in self.sides]

    def _pairs(self, folder: Path, name: str) -> Iterator[tuple[str, ...]]:
        return zip(*(file_lines(folder / file) for file in self._files("", [name])), strict=True)

    def _clean(self, work: Path) -> None:
        longest, ratio = self.corpus.longest_words, self.corpus.ratio
        pairs = (pair for pair in self._pairs(work, "train") if is_clean(pair, longest, ratio))
        write_pairs(pairs, work / "text/clean.train", self.sides)

    def _learn(self, kind: segmentation.Subwords, train: str, work: Path) -> None:
        files = [work / name for name in self._files("", [train])]
        kind.learn(lambda: chain.from_iterable(map(file_lines, files)), work / "text")

    def _split(self, kind: segmentation.Subwords, train: str, work: Path) -> None:
        longest, ratio = self.corpus.longest, self.corpus.ratio
        encoder = kind.encoder(work / "text")
        for split in self.splits:
            pairs: Iterable[Pair] = self._pairs(work, train if split == "train" else split)
            pairs = map_pairs([encoder] * 2, pairs, self.options.jobs, f"splitting {split}")
            if longest is not None and split == "train":
                pairs = (pair for pair in pairs if is_clean(pair, longest, ratio))
            if self.most is not None:
                fix = "" if self.template else ": raise --max-pieces"  # the model decides it
                pairs = _cut(pairs, self.most, split, self.sides, fix)
            write_pairs(pairs, work / f"text/{self.prefix}{split}", self.sides)

    def binarize(self, work: Path) -> None:
        source, target = self.sides
        flags: dict[str, object] = {"source_lang": source, "target_lang": target}
        flags["joined_dictionary"] = self.joined
        if template := self.template:
            flags["srcdict"] = template.dictionary(source)
            if not self.joined:
                flags["tgtdict"] = template.dictionary(target)
        elif self.kind and self.corpus.subwords != "subword_nmt":
            # All subwords, also those that the training text lacks.
            flags["srcdict"] = dictionary = work / "dictionary.txt"
            # fairseq pads dictionaries with such words to a multiple of 8, for speed on GPUs.
            words = self.kind.vocabulary(work / "text")
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
            fields = {name: getattr(self.corpus, name) for name in names}
            fields |= {"languages": self.sides, **self.described}
            rules = replace(Manifest(corpus=self.corpus.name, **fields), longest=None)
            remedy = "it is the model's form of text" if self.template else None
            counted["round_trip"] = round_trip.measure(folder, rules, remedy)
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
        texts, in_case = {}, str.lower if self.described["lower"] else str
        for split in SPLITS:
            pairs = self._pairs(dest, f"{self.prefix}{split}")
            # They are compared by their sources, whose subwords may be cut or unknown.
            sources = file_lines(dest / f"text/{split}.{sides[0]}")
            texts[split] = ((*pair, text) for pair, text in zip(pairs, sources, strict=True))
        report.report_splits(texts, sides, lambda pair: in_case(pair[-1]), self.most or LONGEST)
        if rules := read_manifest(dest):
            round_trip.report(rules.round_trip)
        if template := self.template:
            for side in sides:
                files = [dest / f"text/{self.prefix}train.{side}"]
                print(unknown_tokens(template.dictionary(side), files, side))
        train = report.next_commands(corpus, dest, template=template)
        saved, text = str(checkpoints_of(dest)), f"{report.shown(dest)}/test"
        words = ["posattn", "summarize" if sides == SIDES else "translate", saved]
        words += ["--input", f"{text}.{sides[0]}", "--output", f"{saved}/test.{sides[1]}"]
        print(f"then, on the raw test set,\n    {shlex.join(words)}")
        return train


def _cut(
    pairs: Iterable[Pair], most: int, split: str, sides: Sequence[str], fix: str
) -> Iterator[list[str]]:
    """Yield pairs cut to ``most`` subwords a side; print at the end how many, and the ``fix``."""
    number, cut = 0, Counter[str]()
    for pair in pairs:
        number += 1
        texts = [line.split(" ", most) for line in pair]
        cut.update(side for side, text in zip(sides, texts, strict=True) if len(text) > most)
        yield [" ".join(text[:most]) for text in texts]
    for side, count in cut.items():
        share = f"{count:,} of {number:,} lines, {count / number:.1%}"
        say(f"warning: {split}.{side}: cut after {most} subwords ({share}){fix}")
