"""Labeled examples: checked, divided into seeded, stratified splits, tokenized, written as text."""

import json
import random
from collections import Counter, defaultdict
from contextlib import ExitStack
from itertools import islice, product
from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.common.files import write_json, writing
from fairseq_posattn.common.progress import map_lines
from fairseq_posattn.preparation.corpus import FOLDS, SPLITS
from fairseq_posattn.preparation.report import counted
from fairseq_posattn.text.lines import one_line, read_member
from fairseq_posattn.text.words import PUBLISHED

WHOLE = "all"  # the one "split" of a data set that is published without splits
SUMMARY = "summary.json"


class Example(NamedTuple):
    """A labeled sentence, sentence pair or document."""

    label: str | None  # class name without spaces; None if the annotators did not agree
    inputs: tuple[str, ...]  # the text, or the two texts of a pair
    place: str  # FILE:LINE, for messages
    score: float | None = None  # number beside the class, such as relatedness or a rating


def checked_text(value, place, what="the text", fix=""):
    """Return the value if it is text without lone surrogates, else raise :exc:`UsageError`."""
    if not isinstance(value, str):
        raise UsageError(f"{place}: {what} is {shortened(value)}, no text{fix}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        wrong = shortened(value[error.start])
        raise UsageError(f"{place}: {what} holds {wrong}, half of a character{fix}") from None
    return value


def numbered_class(number, classes, place, first=0):
    """Return the class of a number from ``first`` on, as text; raise :exc:`UsageError` if none."""
    numbers = [str(first + index) for index in range(len(classes))]
    return classes[numbers.index(known_class(number, numbers, place))]


def known_class(label, classes, place):
    """Return the label; raise :exc:`UsageError` if it is none of the classes."""
    if label not in classes:
        raise UsageError(f"{place}: {shortened(label)} is none of {', '.join(classes)}")
    return label


def read_objects(archive, member, what, *keys):
    """Yield ``(FILE:LINE, values of the keys)`` of the JSON objects of a file, one a line."""
    for place, line in read_member(archive, member):
        try:
            row = json.loads(line)
            yield place, [row[key] for key in keys]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{place}: no {what} in JSON format: {error}") from None


class TextFiles(ExitStack):
    """Writer of text files of one folder; drops and counts examples without words or class."""

    def __init__(self, folder, kinds):
        super().__init__()
        self.folder, self.kinds = folder, kinds
        self.read, self.written, self.labels = Counter(), dict.fromkeys(SPLITS, 0), Counter()
        self.empty, self.unlabeled, self.longest = [], 0, 0
        folder.mkdir(parents=True, exist_ok=True)
        self.files = {
            (split, kind): self.enter_context(writing(folder / f"{split}.{kind}"))
            for split, kind in product(SPLITS, kinds)
        }

    def write(self, example, split, published):
        """Write an example to ``split``; ``published`` is the split it was published in."""
        if example.label is None:
            self.unlabeled += 1
            return
        self.read[published] += 1
        if not all(example.inputs):
            self.empty.append(example.place)
            return
        self.written[split] += 1
        self.labels[example.label] += split == "train"
        self.longest = max(self.longest, *(text.count(" ") + 1 for text in example.inputs))
        values = (*example.inputs, example.label, example.score)
        for kind, value in zip(self.kinds, values, strict=False):
            self.files[split, kind].write(f"{value}\n")

    def __exit__(self, kind, *error):
        super().__exit__(kind, *error)
        if kind is not None:
            return
        for split, written in self.written.items():
            if not written:
                read = self.read[split]
                why = f"{counted(read, 'text')} without words" if read else "raise or drop --limit"
                raise UsageError(f"there is no example for {split}: {why}")
        summary = {name: getattr(self, name) for name in ("read", "written", "labels", "empty")}
        summary |= {"unlabelled": self.unlabeled, "longest": self.longest}
        write_json(self.folder / SUMMARY, summary)


def read_summary(folder):
    """Return the counts that :class:`TextFiles` wrote."""
    return json.loads((folder / SUMMARY).read_text(encoding="utf-8"))


def write_splits(readers, folder, corpus, options, cut=str):
    """Tokenize published splits; hold validation out of training if it is not published."""
    with TextFiles(folder, corpus.kinds) as files:
        for published, read in readers.items():
            valid = frozenset()
            if published == "train" and "valid" not in readers:
                labels = [example.label for example in islice(read(), options.limit)]
                valid = held_out(labels, options.seed, options.valid_fraction)
            examples = islice(read(), options.limit)
            tokenized = _tokenize_all(examples, published, corpus, options, cut)
            for index, example in enumerate(tokenized):
                files.write(example, "valid" if index in valid else published, published)


def write_divided(read, folders, corpus, options, cut=str):
    """Tokenize unsplit data and divide it into tenths or, with ten ``folders``, into ten folds."""
    examples = list(read())
    labels = [example.label for example in examples]
    if options.limit is not None:
        chosen = sorted(stratified_sample(labels, options.seed, options.limit))
        examples, labels = ([values[index] for index in chosen] for values in (examples, labels))
    if len(examples) < FOLDS:
        raise UsageError(f"{len(examples)} examples are too few to divide; raise --limit")
    if corpus.cross_validated:
        divisions = cross_validation(labels, options.seed, options.valid_fraction)
    else:
        order = stratified_order(labels, options.seed)
        divisions = [{"test": order[0::FOLDS], "valid": order[1::FOLDS]}]
    tokenized = list(_tokenize_all(examples, "all", corpus, options, cut))
    for folder, division in zip(folders, divisions, strict=True):
        split_of = {index: split for split, indices in division.items() for index in indices}
        with TextFiles(folder, corpus.kinds) as files:
            for index, example in enumerate(tokenized):
                files.write(example, split_of.get(index, "train"), WHOLE)


def _tokenize_all(examples, split, corpus, options, cut):
    words, case = PUBLISHED[corpus.word_rule], str if options.cased else str.lower

    def tokenize(example):
        texts = (one_line(words(checked_text(text, example.place))) for text in example.inputs)
        return example._replace(inputs=tuple(cut(case(text)) for text in texts))

    return map_lines(tokenize, examples, options.jobs, f"tokenizing {split}")


def cross_validation(labels, seed, valid_fraction):
    """Yield the indices for ``valid`` and ``test`` of each fold; the others are for training."""
    order = stratified_order(labels, seed)
    for fold in range(FOLDS):
        test = set(order[fold::FOLDS])
        rest = [index for index in range(len(labels)) if index not in test]
        chosen = held_out([labels[index] for index in rest], seed, valid_fraction)
        yield {"valid": {rest[i] for i in chosen}, "test": test}


def held_out(labels, seed, fraction):
    """Return the indices of a fraction of the examples, at least one."""
    return stratified_sample(labels, seed, max(1, round(len(labels) * fraction)))


def stratified_sample(labels, seed, count):
    """Return the indices of ``count`` examples, or of all if there are fewer."""
    order = stratified_order(labels, seed)
    count = min(count, len(order))
    return {order[(2 * i + 1) * len(order) // (2 * count)] for i in range(count)}


def stratified_order(labels, seed):
    """Return indices by class, shuffled within, so that even distances give each its share."""
    by_class, generator = defaultdict(list), random.Random(seed)
    for index, label in enumerate(labels):
        by_class[label].append(index)
    for label in sorted(by_class, key=str):
        generator.shuffle(by_class[label])
    return [index for label in sorted(by_class, key=str) for index in by_class[label]]
