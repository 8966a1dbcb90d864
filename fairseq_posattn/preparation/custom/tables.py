"""Rows of CSV, TSV and JSONL files, by the names of their columns."""

import csv
import json
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.custom.files import opened
from fairseq_posattn.preparation.example import checked_text
from fairseq_posattn.text.lines import csv_rows

HELP = (
    ".csv, .tsv or .jsonl, compressed (.gz, .bz2, .xz) or not; the first line of a table names its "
    "columns, and quotation marks mean something in CSV only"
)


def read_rows(path, columns):
    """``(place, values)`` of each row, where ``values`` are those of ``columns``, in their order.

    A CSV file has its fields in quotation marks where they hold commas or line breaks; a TSV file
    has no quotation marks that mean anything; both name their columns in the first line. Blank
    lines are passed over.

    Raises:
        UsageError: the file is not what its name says, has no such column, or no row.
    """
    with opened(path) as (name, lines):
        ending = Path(name).suffix.lower()
        if ending not in READERS:
            raise UsageError(
                f"{path}: is it CSV, TSV or JSONL? Give it a name that ends in .csv, .tsv or .jsonl"
            )
        place = None
        for place, row in READERS[ending](lines, path):
            yield place, [_value(row, column, place) for column in columns]
    if place is None:
        raise UsageError(f"{path}: holds no rows, only the names of columns")


def _csv_rows(lines, path, mend="put quotation marks around text with commas", **dialect):
    header = None
    for place, row in csv_rows(lines, path, **dialect):
        if header is None:
            header = _column_names(row, place)
        elif len(row) == len(header):
            yield place, dict(zip(header, row, strict=True))
        elif row:
            raise UsageError(
                f"{place}: {len(row)} fields in a table of {len(header)} columns; {mend}"
            )


def _column_names(row, place):
    names = [name.strip() for name in row]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{place}: two columns are called {name!r}: rename one")
    return names


def _tsv_rows(lines, path):
    mend = "part them by one tab each, without tabs in the text"
    return _csv_rows(lines, path, mend, delimiter="\t", quoting=csv.QUOTE_NONE)


def _json_rows(lines, path):
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise UsageError(f"{place}: no JSON object; a JSONL file has one on each line")
        yield place, row


READERS = {
    ".csv": _csv_rows,
    ".tsv": _tsv_rows,
    ".jsonl": _json_rows,
    ".ndjson": _json_rows,
}


def _value(row, column, place):
    if column not in row:
        known = ", ".join(map(repr, row))
        raise UsageError(f"{place}: no column {column!r}; give one that is there: {known}")
    return row[column]


def text_of(value, column, place):
    """The text in a column of a row.

    Raises:
        UsageError: it is none.
    """
    return checked_text(value, place, f"column {column!r}", ": correct it, or remove the row")
