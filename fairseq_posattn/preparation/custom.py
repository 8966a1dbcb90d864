"""Custom data, called ``own``: plain text and tables, held-out examples, labeled text.

Tables are CSV, TSV and JSONL. :mod:`.custom_pairs` has translations and summaries.
"""

import csv
import json
import math
import re
import unicodedata
from collections import Counter
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import regex

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.archives import COMPRESSED, Archives, SingleFile, open_archive
from fairseq_posattn.preparation.corpus import SPLITS, ClassificationCorpus
from fairseq_posattn.preparation.labeled_text import Example, checked_text, stratified_sample
from fairseq_posattn.preparation.vectors import fraction
from fairseq_posattn.text.lines import csv_rows, read_lines
from fairseq_posattn.text.vocabulary import SPECIAL, check_symbols

HELD_OUT = ("test", "valid")
HELP = (
    ".csv, .tsv or .jsonl, compressed (.gz, .bz2, .xz) or not; the first line of a table names its "
    "columns, and quotation marks are special in CSV only"
)
INVISIBLE = regex.compile(r"[\s\p{C}]+")
ONE_CLASS = "score"  # label of examples with a number


def file_or_size(text):
    """Return the file, number or share of examples that ``--valid`` or ``--test`` names."""
    if text.isdecimal() and int(text):
        return int(text)
    return fraction(text) if re.fullmatch(r"\d*\.?\d+", text) else Path(text)


def held_out_size(size, number):
    """Return how many of ``number`` examples a number or share is, at least one."""
    return max(1, size if isinstance(size, int) else round(number * size))


def open_file(path):
    """Return a :class:`.SingleFile`; raise :exc:`UsageError` for a folder or an archive."""
    archive = open_archive(path)
    if not isinstance(archive, SingleFile):
        raise UsageError(f"{path}: not a text file; unpack it and name the file")
    return archive


def files_as_archive(paths):
    """Return text files as one archive, for its fingerprint."""
    return Archives("files", list(map(open_file, paths)))


def file_suffix(path):
    """Return the suffix of a file's name before that of its compression."""
    return Path(path.stem if path.suffix in COMPRESSED else path.name).suffix


@contextmanager
def open_lines(path):
    """Yield the lines of a text file in UTF-8, compressed or not."""
    with open_file(path).open_only() as stream:
        yield read_lines(stream, path)


def read_rows(path, columns):
    """Yield ``(FILE:LINE, values of the columns)`` of each row of a table; skip blank lines."""
    suffix = file_suffix(path).lower()
    if suffix not in READERS:
        raise UsageError(f"{path}: unknown format; name a .csv, .tsv or .jsonl file")
    place = None
    with open_lines(path) as lines:
        for place, row in READERS[suffix](lines, path):
            for column in columns:
                if column not in row:
                    known = ", ".join(map(repr, row))
                    raise UsageError(f"{place}: no column {column!r}; choose from {known}")
            yield place, [row[column] for column in columns]
    if place is None:
        raise UsageError(f"{path}: holds no rows, only the names of columns")


def _table_rows(lines, path, fix, **dialect):
    header = None
    for place, row in csv_rows(lines, path, **dialect):
        if header is None:
            header = [name.strip() for name in row]
        elif len(row) == len(header):
            yield place, dict(zip(header, row, strict=True))
        elif row:
            number = len(header)
            raise UsageError(f"{place}: {len(row)} fields in a table of {number} columns; {fix}")


def _json_rows(lines, path):
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise UsageError(f"{path}:{number}: not a JSON object; JSONL has one on each line")
            yield f"{path}:{number}", row


TABS = "separate them by one tab each, and remove tabs from texts"
READERS = {
    ".csv": partial(_table_rows, fix="put quotation marks around text with commas"),
    ".tsv": partial(_table_rows, fix=TABS, delimiter="\t", quoting=csv.QUOTE_NONE),
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
}


def text_of(value, column, place):
    """Return the text in a column of a row; raise :exc:`UsageError` if it is not text."""
    return checked_text(value, place, f"column {column!r}", "; correct it, or remove the row")


def identity(*texts):
    """Return a hash that ignores spaces, control characters, case and Unicode form."""
    forms = (unicodedata.normalize("NFKC", text).casefold() for text in texts)
    return hash(tuple(INVISIBLE.sub("", text) for text in forms))


def hold_out(examples, seed, sizes, name):
    """Return the indices of held-out examples by split, with the same share of each class.

    Repeated texts stay in training, so that splits are disjoint; so does one example of each class.
    ``examples`` are pairs of a class or None and :func:`identity`; ``sizes`` are by split.
    """
    labels, texts = [label for label, _ in examples], Counter(text for _, text in examples)
    free = [index for index, (_, text) in enumerate(examples) if texts[text] == 1]
    chosen, trained = {}, Counter(labels)
    for split, size in sizes.items():
        sample = stratified_sample([labels[index] for index in free], seed, size)
        chosen[split] = {free[index] for index in sample}
        free = [index for index in free if index not in chosen[split]]
        trained.subtract(labels[index] for index in chosen[split])
    for split, indices in chosen.items():
        chosen[split] = {index for index in indices if trained[labels[index]] > 0}
        if not chosen[split]:
            raise UsageError(
                f"{name}: too few different texts to hold some out for {split}; "
                f"give more, or --{split} FILE"
            )
    return chosen


def add_options(parser):
    parser.add_argument("file", type=Path, metavar="FILE", help=f"the training set: {HELP}")
    parser.add_argument("--text", metavar="COLUMN", required=True, help="column of the text")
    parser.add_argument("--text-pair", metavar="COLUMN", help="column of a pair's second text")
    target = parser.add_mutually_exclusive_group(required=True)
    classes = "column of the classes; their spaces become _"
    target.add_argument("--label", metavar="COLUMN", help=classes)
    target.add_argument("--score", metavar="COLUMN", help="or column of numbers, for regression")
    held = (
        "file with the same columns, or how many examples of FILE, or which share of each class, "
        "to hold out (default: 0.1)"
    )
    given = {"type": file_or_size, "metavar": "FILE|N|SHARE", "default": 0.1}
    for split in reversed(HELD_OUT):
        parser.add_argument(f"--{split}", help=held, **given)
    rules = ("moses", "documents", "spaces")
    about = "tokenization: moses; documents: moses, with <sep> between sentences; spaces: the text "
    about += "is tokenized already (default: %(default)s)"
    parser.add_argument("--words", choices=rules, default="moses", help=about)


def changes(options):
    changed = {"word_rule": options.words, "pairs": options.text_pair is not None}
    if options.score:
        changed |= {"scored": True, "labels": (ONE_CLASS,), "metrics": ("rmse",)}
    return changed


def settings(options):
    names = ("text", "text_pair", "label", "score", "words", *HELD_OUT)
    return {name: str(getattr(options, name)) for name in names}


def given(options):
    held = [getattr(options, split) for split in HELD_OUT]
    return files_as_archive([options.file, *(one for one in held if isinstance(one, Path))])


def splits(_, options):
    keys = [(one.label, identity(*one.inputs)) for one in examples(options.file, options)]
    sources = {split: getattr(options, split) for split in HELD_OUT}
    sizes = {s: held_out_size(n, len(keys)) for s, n in sources.items() if not isinstance(n, Path)}
    chosen = hold_out(keys, options.seed, sizes, options.file)
    chosen["train"] = set(range(len(keys))).difference(*chosen.values())
    labels = {label for label, _ in keys}

    def read(split):
        if split in chosen:
            rows = enumerate(examples(options.file, options))
            yield from (example for index, example in rows if index in chosen[split])
            return
        for example in examples(sources[split], options):
            if example.label not in labels:
                raise UsageError(
                    f"{example.place}: the label {example.label!r} is in no example of "
                    f"{options.file}; correct it, or add examples of it there"
                )
            yield example

    return {split: partial(read, split) for split in SPLITS}


def examples(path, options):
    """Yield the labeled texts of a table; raise :exc:`UsageError` naming a malformed line."""
    texts = [options.text] if options.text_pair is None else [options.text, options.text_pair]
    for place, (target, *inputs) in read_rows(path, [options.label or options.score, *texts]):
        for column, text in zip(texts, inputs, strict=True):
            text_of(text, column, place)
            if options.words == "spaces":
                words = text if options.cased else text.lower()
                check_symbols(words, f"{place}: column {column!r}", "--words moses")
        if options.score:
            yield Example(ONE_CLASS, tuple(inputs), place, _number(target, options.score, place))
        else:
            yield Example(_class_name(target, options.label, place), tuple(inputs), place)


def _class_name(value, column, place):
    name = "_".join(str(value).split())
    if value is None or not name:
        raise UsageError(f"{place}: no label in column {column!r}; fill it in, or remove the row")
    if isinstance(value, dict | list) or name in SPECIAL:
        raise UsageError(f"{place}: {shortened(value)} in column {column!r} cannot be a label")
    return checked_text(name, place, "the label")


def _number(value, column, place):
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(
            f"{place}: {shortened(value)} in column {column!r} is not a number; correct it, or "
            "remove the row"
        )
    return number


CLASSIFICATION = ClassificationCorpus(
    name="own",
    summary="a custom table of texts or pairs with labels or numbers",
    splits=splits,
    word_rule="moses",
    given=given,
    settings=settings,
    add_options=add_options,
    changes=changes,
)
