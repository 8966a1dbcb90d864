"""Preparation of labeled text, from published files to what sentence_prediction reads.

A destination holds the binarized splits in ``input0``, for pairs ``input1``, and ``label``, where
``{split}.label`` has scores, if any; tokens are in ``text``, vectors in ``glove.txt``.
Cross-validated data sets have all but the vectors in ``fold0`` to ``fold9``.
"""

import json
import shutil
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import islice, product
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.files import write_json
from fairseq_posattn.common.progress import map_lines, say
from fairseq_posattn.preparation import held_out, report, segmentation, vectors
from fairseq_posattn.preparation.corpus import (
    FOLDS,
    POSITIONS,
    SPLITS,
    WHOLE,
    ClassificationCorpus,
    Readers,
)
from fairseq_posattn.preparation.examples import Example, checked_text
from fairseq_posattn.preparation.like import unknown_tokens
from fairseq_posattn.preparation.parallel import LineWriter, Rule
from fairseq_posattn.preparation.pipeline import Preparation
from fairseq_posattn.preparation.stages import Stages
from fairseq_posattn.text import gpt
from fairseq_posattn.text.lines import file_lines, one_line
from fairseq_posattn.text.plain_text import is_visible
from fairseq_posattn.text.vocabulary import SPECIAL, write_dictionary
from fairseq_posattn.text.words import PUBLISHED

SUMMARY = "summary.json"
EMPTY_SHOWN = 3

Placed = tuple[str, str, Example]  # split, the split it was published in, and the example


def add_options(corpus: ClassificationCorpus, parser: ArgumentParser) -> None:
    vectors.add_word_options(parser)
    model = (
        "split words into the subwords of GPT (Radford et al., 2018), whose vocab.json and "
        "merges.txt are in this folder of Hugging Face's openai-gpt, for fairseq-train with "
        "--language-model FOLDER; instead of --glove, --min-count and --cased"
    )
    parser.add_argument("--language-model", type=Path, metavar="FOLDER", help=model)
    share = (
        "share of each class of the training set that is held out for validation if no validation "
        "set is published (default: %(default)s)"
    )
    if corpus.source is None:
        parser.set_defaults(valid_fraction=None)
    else:
        parser.add_argument(
            "--valid-fraction", type=vectors.fraction, metavar="X", default=0.1, help=share
        )
    corpus.add_options(parser)


class ClassificationPreparation(Preparation):
    """Preparation of labeled sentences, pairs and documents, in words or in subwords."""

    def __init__(self, corpus: ClassificationCorpus, options: Namespace) -> None:
        self.kind: segmentation.Subwords | None = None
        if template := options.template:
            options = Namespace(**{**vars(options), "cased": not template.rules.lower})
            self.kind = segmentation.ModelSubwords(template)
        elif options.language_model:
            corpus = replace(corpus, subwords=gpt.SUBWORDS, recipe=corpus.recipe and "")
            self.kind = segmentation.GptSubwords(options)
        elif corpus.subwords:  # they lose nothing
            changed = {"cased": True, "bpe_operations": corpus.bpe_operations}
            options = Namespace(**{**vars(options), **changed})
            self.kind = segmentation.SentencePieces(options)
        super().__init__(corpus, options)
        self.parts = corpus.parts
        self.texts = [f"{part}/text".removeprefix("./") for part in corpus.parts]
        self.columns = {"dict.txt": corpus.inputs, "labels.txt": ["label"]}
        self.quiet = self.columns if corpus.cross_validated else ["labels.txt"]
        columns = (*corpus.inputs, "label")
        self.binarized = [f"{part}/{column}" for part in corpus.parts for column in columns]
        names = ("seed", "valid_fraction", "cased")
        self.settings = {name: getattr(options, name) for name in names} | self.settings
        self.described["lower"] = not options.cased
        if self.kind:
            self.settings |= self.kind.settings
        if template:
            self.settings["like"] = template.digest(corpus.inputs[0], "label")

    def write_text(self, readers: Readers, work: Path) -> None:
        folders = [work / text for text in self.texts]
        cut: Rule = str
        for folder in folders:
            folder.mkdir(parents=True)
            if self.kind:
                self.kind.learn(lambda: self._lines(readers["train"]), folder)
                cut = self.kind.encoder(folder)
        if WHOLE in readers:
            self._write_divided(readers[WHOLE], folders, cut)
        else:
            write_examples(self._placed(readers, cut), folders[0], self.corpus.kinds)

    def _lines(self, read: Callable[[], Iterator[Example]]) -> Iterator[str]:
        for example in islice(read(), self.options.limit):
            yield from (one_line(text).replace("\t", " ") for text in example.inputs)

    def _placed(self, readers: Readers, cut: Rule) -> Iterator[Placed]:
        """Tokenize published splits; hold validation out of training if it is not published."""
        options = self.options
        for published, read in readers.items():
            valid: set[int] = set()
            if published == "train" and "valid" not in readers:
                labels = [example.label for example in islice(read(), options.limit)]
                size = held_out.held_out_size(options.valid_fraction, len(labels))
                valid = held_out.stratified_sample(labels, options.seed, size)
            examples = islice(read(), options.limit)
            for index, example in enumerate(self._tokenized(examples, published, cut)):
                yield "valid" if index in valid else published, published, example

    def _write_divided(
        self, read: Callable[[], Iterator[Example]], folders: Sequence[Path], cut: Rule
    ) -> None:
        """Tokenize unsplit data; divide it into tenths or, with ten ``folders``, into ten folds."""
        examples, seed, limit = list(read()), self.options.seed, self.options.limit
        labels = [example.label for example in examples]
        if limit is not None:
            chosen = sorted(held_out.stratified_sample(labels, seed, limit))
            examples, labels = [examples[i] for i in chosen], [labels[i] for i in chosen]
        divisions: Iterable[Mapping[str, Iterable[int]]]
        if self.corpus.cross_validated:
            divisions = held_out.cross_validation(labels, seed, self.options.valid_fraction)
        else:
            order = held_out.stratified_order(labels, seed)
            divisions = [{"test": order[0::FOLDS], "valid": order[1::FOLDS]}]
        tokenized = list(self._tokenized(examples, WHOLE, cut))
        for folder, division in zip(folders, divisions, strict=True):
            split_of = {index: split for split, indices in division.items() for index in indices}
            rows = enumerate(tokenized)
            placed = ((split_of.get(index, "train"), WHOLE, example) for index, example in rows)
            write_examples(placed, folder, self.corpus.kinds)

    def _tokenized(self, examples: Iterable[Example], split: str, cut: Rule) -> Iterator[Example]:
        words, case = PUBLISHED[self.corpus.word_rule], str if self.options.cased else str.lower
        if self.template:
            words, case = self.template.tokenizer(""), str

        def tokenize(example: Example) -> Example:
            texts = (checked_text(text, example.location) for text in example.inputs)
            texts = (one_line(words(text.replace("\t", " "))) for text in texts)
            texts = (text if is_visible(text) else "" for text in texts)
            return example._replace(inputs=tuple(cut(case(text)) for text in texts))

        return map_lines(tokenize, examples, self.options.jobs, f"tokenizing {split}")

    def run_stages(self, stages: Stages, glove: vectors.Vectors | None) -> None:
        if not self.kind:
            super().run_stages(stages, glove)
            return
        stages.run("vocabulary", ["dict.txt"], partial(self._write_subwords, self.kind))
        stages.run("binarized data", self.binarized, self.binarize)

    def _write_subwords(self, kind: segmentation.Subwords, work: Path) -> None:
        if self.template:
            shutil.copyfile(self.template.dictionary(self.corpus.inputs[0]), work / "dict.txt")
            return
        subwords = kind.vocabulary(work / self.texts[0])
        known = [token for token in subwords if token not in SPECIAL and token.split() == [token]]
        write_dictionary(work / "dict.txt", dict.fromkeys(known, 1))

    def count_words(self, folder: Path) -> tuple[Counter[str], Counter[str]]:
        train, others = super().count_words(folder)
        if self.corpus.cross_validated:  # each example is in the training set of some fold
            return train + others, Counter()
        return train, others

    def binarize(self, work: Path) -> None:
        corpus = self.corpus
        occurrences = read_summary(work / self.texts[0])["labels"]
        labels = corpus.labels or sorted(occurrences)
        if not corpus.scored and len(labels) == 1:
            raise UsageError(f"--label: all texts have the class {labels[0]!r}; give at least two")
        write_dictionary(work / "labels.txt", {name: occurrences.get(name, 0) for name in labels})
        super().binarize(work)
        for part, split in product(self.parts if corpus.scored else (), SPLITS):
            scores = work / part / "text" / f"{split}.score"
            shutil.copyfile(scores, work / part / "label" / f"{split}.label")

    def describe(self, folder: Path) -> dict[str, Any]:
        summary = read_summary(folder / self.texts[0])
        return {
            "examples": summary["written"],
            "classes": self.corpus.num_classes or len(summary["labels"]),
            "longest_text": summary["longest"],
            "features": vectors.features(folder),
        }

    def report(self) -> list[str]:
        corpus, dest, options = self.corpus, self.dest, self.options
        text = dest / self.texts[0]
        summary = read_summary(text)
        if corpus.recipe is not None:
            report.report_counts(summary["read"], corpus.published, options.limit, "examples")
        if summary["unlabelled"]:
            say(f"left out, since their annotators did not agree: {summary['unlabelled']:,}")
        if empty := summary["empty"]:
            more = f" and {len(empty) - EMPTY_SHOWN:,} more" if len(empty) > EMPTY_SHOWN else ""
            shown = f"{', '.join(empty[:EMPTY_SHOWN])}{more}"
            share = f"{len(empty) / sum(summary['read'].values()):.1%}"
            say(f"left out, since they have no words: {shown} ({share})")
        written = ", ".join(f"{count:,} for {split}" for split, count in summary["written"].items())
        say(f"written{' in fold0' if corpus.cross_validated else ''}: {written}")
        if summary["longest"] >= POSITIONS:
            _report_cuts(corpus, text)
        if corpus.recipe is None:
            _report_own(corpus, text)
        if template := self.template:
            files = [text / f"train.{name}" for name in corpus.inputs]
            print(unknown_tokens(template.dictionary(corpus.inputs[0]), files, "train"))
        folder = dest / "fold0" if corpus.cross_validated else None
        model = options.language_model
        # The rate of Radford et al. (2018): that of new models would undo the pre-training.
        extra = ["--language-model", str(model), "--lr", "6.25e-5"] if model else ()
        return report.next_commands(corpus, dest, folder, extra, template)


def _report_cuts(corpus: ClassificationCorpus, text: Path) -> None:
    for split, name in product(SPLITS, corpus.inputs):
        lengths = [len(line.split()) for line in file_lines(text / f"{split}.{name}")]
        if cut := sum(length >= POSITIONS for length in lengths):
            say(
                f"warning: {split}.{name}: {cut:,} of {len(lengths):,} texts "
                f"({cut / len(lengths):.1%}) will be cut to {POSITIONS} tokens by posattn train; "
                "'-- --max-positions N' there reads more"
            )


def _report_own(corpus: ClassificationCorpus, text: Path) -> None:
    def columns(name: str) -> dict[str, Iterator[str]]:
        return {split: file_lines(text / f"{split}.{name}") for split in SPLITS}

    inputs = [columns(name) for name in corpus.inputs]
    examples = {s: zip(*(texts[s] for texts in inputs), strict=True) for s in SPLITS}
    unit = "subwords" if corpus.subwords else "words"
    report.report_splits(examples, corpus.inputs if corpus.pairs else [unit])
    if not corpus.scored:
        report.report_labels(columns("label"))


def write_examples(placed: Iterable[Placed], folder: Path, kinds: Sequence[str]) -> None:
    """Write the text files of one folder, and a summary; drop examples without words or class."""
    counts: dict[str, Counter[str]] = {name: Counter() for name in ("read", "written", "labels")}
    empty, unlabeled, longest = list[str](), 0, 0
    with ExitStack() as stack:
        writers = {s: stack.enter_context(LineWriter(folder / s, kinds)) for s in SPLITS}
        for split, published, example in placed:
            if example.label is None:
                unlabeled += 1
                continue
            counts["read"][published] += 1
            if not all(example.inputs):
                empty.append(example.location)
                continue
            counts["labels"][example.label] += split == "train"
            longest = max(longest, *(text.count(" ") + 1 for text in example.inputs))
            values = (*example.inputs, example.label, str(example.score))
            writers[split].write(values[: len(kinds)])
    counts["written"] = Counter({split: writer.count for split, writer in writers.items()})
    for split, written in counts["written"].items():
        if not written:
            count = counts["read"][split]
            words = f"{counted(count, 'text')} without words"
            why = words if count else "raise or drop --limit"
            raise UsageError(f"there is no example for {split}: {why}")
    summary = {**counts, "empty": empty, "unlabelled": unlabeled, "longest": longest}
    write_json(folder / SUMMARY, summary)


def read_summary(folder: Path) -> Any:
    return json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
