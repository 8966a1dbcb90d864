"""The user's files: plain text, CSV, TSV and JSONL, and examples that are held out of them."""

import csv
import json
import re
import unicodedata
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import regex

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import Archives, SingleFile, open_archive
from fairseq_posattn.preparation.labeled_text import checked_text, stratified_sample
from fairseq_posattn.preparation.vectors import fraction
from fairseq_posattn.text.lines import csv_rows, read_lines

HELD_OUT = ("test", "valid")
HELP = (
    ".csv, .tsv or .jsonl, compressed (.gz, .bz2, .xz) or not; the first line of a table names its "
    "columns, and quotation marks are special in CSV only"
)
INVISIBLE = regex.compile(r"[\s\p{C}]+")


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


def file_name(path):
    """Return a file's name without the suffix of its compression."""
    return Path(path).name if Path(path).suffix not in (".gz", ".bz2", ".xz") else Path(path).stem


@contextmanager
def open_lines(path):
    """Yield the lines of a text file in UTF-8, compressed or not."""
    with open_file(path).open_only() as stream:
        yield read_lines(stream, path)


def files_as_archive(paths):
    """Return text files as one archive, for its fingerprint."""
    return Archives("files", [open_file(path) for path in paths])


def read_rows(path, columns):
    """Yield ``(FILE:LINE, values of the columns)`` of each row of a table; skip blank lines."""
    suffix = Path(file_name(path)).suffix.lower()
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


def _csv_rows(lines, path, fix="put quotation marks around text with commas", **dialect):
    header = None
    for place, row in csv_rows(lines, path, **dialect):
        if header is None:
            header = [name.strip() for name in row]
        elif len(row) == len(header):
            yield place, dict(zip(header, row, strict=True))
        elif row:
            raise UsageError(
                f"{place}: {len(row)} fields in a table of {len(header)} columns; {fix}"
            )


def _tsv_rows(lines, path):
    fix = "separate them by one tab each, and remove tabs from texts"
    return _csv_rows(lines, path, fix, delimiter="\t", quoting=csv.QUOTE_NONE)


def _json_rows(lines, path):
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UsageError(f"{path}:{number}: not a JSON object; JSONL has one on each line")
        yield f"{path}:{number}", row


READERS = {".csv": _csv_rows, ".tsv": _tsv_rows, ".jsonl": _json_rows, ".ndjson": _json_rows}


def text_of(value, column, place):
    """Return the text in a column of a row; raise :exc:`UsageError` if it is not text."""
    return checked_text(value, place, f"column {column!r}", "; correct it, or remove the row")


def identity(*texts):
    """Return a hash that ignores spaces, control characters, case and Unicode form.

    Tokenization can make texts equal that differ in these only.
    """
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
