"""Tables of the user: CSV, TSV, JSONL and Parquet, by the rules that docs/own_corpus.md states."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation import archives
from fairseq_posattn.preparation.examples import checked_text
from fairseq_posattn.text.lines import csv_rows, read_lines
from fairseq_posattn.text.plain_text import in_form

HELP = (
    ".csv, .tsv or .jsonl, compressed (.gz, .bz2, .xz) or not, or .parquet; the first line of a "
    "table names its columns"
)
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
PARQUET = ".parquet"
# Their usual delimiters; None for formats without.
FORMATS = {".csv": ",", ".tsv": "\t", ".jsonl": None, ".ndjson": None, ".json": None, PARQUET: None}
# Rows whose fields are in quotation marks, if any, as a whole, with inner marks doubled.
_FIELD = r'"([^"]*(?:""[^"]*)*)"'
OPEN = re.compile(rf'(?:(?:{_FIELD}|[^"\t]*)\t)*"[^"]*(?:""[^"]*)*')  # the rest is in later lines
ROW = re.compile(rf'(?:{_FIELD}|[^"\t]*)(?:\t(?:{_FIELD}|[^"\t]*))*')
QUOTED = re.compile(_FIELD)
MOST_LINES = 10_000  # of a field; more stand between two quotation marks that are ordinary

Rows = Iterator[tuple[str, dict[str, Any]]]  # FILE:LINE, and values by column


def open_file(path: Path) -> archives.SingleFile:
    """Return a :class:`.SingleFile`; raise :exc:`UsageError` for a folder or an archive."""
    archive = archives.open_archive(path)
    if not isinstance(archive, archives.SingleFile):
        raise UsageError(f"{path}: not a text file; unpack it and name the file")
    return archive


def files_as_archive(paths: Iterable[Path]) -> archives.Archives:
    """Return text files as one archive, for its fingerprint."""
    return archives.Archives("files", list(map(open_file, paths)))


def text_of(value: Any, column: str, location: str) -> str:
    """Return the text in a column of a row; raise :exc:`UsageError` if it is not text."""
    return checked_text(value, location, f"column {column!r}", "; correct it, or remove the row")


def file_suffix(path: Path) -> str:
    """Return the suffix of a file's name before that of its compression."""
    return Path(path.stem if path.suffix in archives.COMPRESSED else path.name).suffix


def text_lines(path: Path, reader: archives.Reader = read_lines) -> Iterator[Any]:
    """Yield the lines of a text file in UTF-8, compressed or not."""
    with open_file(path).open_only() as stream:
        yield from reader(stream, path)


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Yield ``(FILE:LINE, values of the columns)`` of each row of a table; skip blank lines.

    Names of columns are compared in Unicode's composed form.
    """
    if file_suffix(path).lower() not in FORMATS:
        raise UsageError(f"{path}: unknown format; name a .csv, .tsv, .jsonl or .parquet file")
    location, columns = None, [in_form(column, "nfc") for column in columns]
    if file_suffix(path).lower() == PARQUET:
        rows = text_lines(path, partial(parquet_rows, columns=columns))
    else:
        rows = _choose_reader(path, columns)(text_lines(path), path)
    for location, row in rows:
        row = {in_form(name, "nfc"): value for name, value in row.items()}
        for column in columns:
            if column not in row:
                known = ", ".join(map(repr, row))
                raise UsageError(f"{location}: no column {column!r}; choose from {known}")
        yield location, [row[column] for column in columns]
    if location is None:
        raise UsageError(f"{path}: holds no rows, only the names of columns")


def _choose_reader(path: Path, columns: Sequence[str]) -> Callable[[Iterable[str], Path], Rows]:
    """Return the reader of a table, split as its suffix says or as line 1 has the columns."""
    usual = FORMATS[file_suffix(path).lower()]
    if usual is None:
        return _json_rows
    first, needed = in_form(next(text_lines(path)), "nfc"), {*columns}
    fit = (d for d in (usual, *DELIMITERS) if needed <= {n.strip(' "') for n in first.split(d)})
    delimiter = next(fit, usual)
    dialect: dict[str, Any] = {"delimiter": delimiter, "skipinitialspace": f"{delimiter} " in first}
    if delimiter == "\t" and not _is_quoted(path, open_file(path).fingerprint()):
        dialect["quoting"] = csv.QUOTE_NONE
    return partial(_table_rows, columns=columns, **dialect)


@lru_cache(maxsize=8)  # a table is read several times
def _is_quoted(path: Path, state: str) -> bool:
    """Return whether a table with tabs has fields in quotation marks, as csv writers make them.

    Programs that quote all fields quote the first line's, too. Otherwise marks are ordinary
    characters if some field has them within, or if no field needs them: neither for a tab, a line
    break or an inner mark, nor, as in spreadsheets, for a comma.
    """
    quoted = plain = 0
    tabs: set[int] = set()
    commas_within = commas_outside = False
    for number, row in _whole_rows(text_lines(path)):
        counts = {line.count("\t") for line in row.split("\n")}
        tabs = tabs or counts  # of the first line
        are_rows = "\n" in row and counts == tabs  # each line is complete in itself
        if are_rows or not ROW.fullmatch(row):
            plain = plain or number
            continue
        fields, rest = QUOTED.findall(row), QUOTED.sub("", row)
        if number == 1 and fields and not rest.strip("\t"):
            return True
        commas_outside |= "," in rest
        commas_within |= any("," in field for field in fields)
        if any(mark in field for field in fields for mark in ('""', "\t", "\n")):
            quoted = quoted or number
    if quoted and plain:
        say(
            f"warning: {path}: its quotation marks are read as ordinary characters because of line "
            f"{plain}, although line {quoted} has fields in quotation marks; correct one of them"
        )
    return not plain and bool(quoted or commas_within and not commas_outside)


def _whole_rows(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield ``(number of its first line, text)`` of each row, with all lines of a quoted field."""
    row: list[str] = []
    for number, line in enumerate(lines, start=1):
        is_open = line.count('"') % 2 == 0 if row else bool(OPEN.fullmatch(line))
        row.append(line)
        if not is_open or len(row) == MOST_LINES:
            yield number - len(row) + 1, "\n".join(row)
            row = []
    if row:
        yield number - len(row) + 1, "\n".join(row)


def _table_rows(
    lines: Iterable[str], path: Path, columns: Sequence[str], delimiter: str, **dialect: Any
) -> Rows:
    header: list[str] | None = None
    for location, row in csv_rows(lines, path, delimiter=delimiter, **dialect):
        if header is None:
            header = [cell.strip() for cell in row]
            _check_names(location, header, columns)
        elif len(row) == len(header):
            yield location, dict(zip(header, row, strict=True))
        elif row:
            fix = f"put quotation marks around text with {DELIMITERS[delimiter]}"
            if delimiter == "\t":
                fix = "separate them by one tab each, and remove tabs from texts"
            cells, known = counted(len(row), "field"), counted(len(header), "column")
            raise UsageError(f"{location}: {cells} in a table of {known}; {fix}")


def _json_rows(lines: Iterable[str], path: Path) -> Rows:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            location = f"{path}:{number}"
            try:
                row = json.loads(line, object_pairs_hook=partial(_row, location))
            except UsageError:
                raise
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                fix = "JSONL has one on each line; of an array, jq -c '.[]' writes them so"
                raise UsageError(f"{location}: not a JSON object; {fix}")
            yield location, _inner(row)


def parquet_rows(stream: IO[bytes], name: Path, columns: Sequence[str]) -> Rows:
    """Yield the rows of a Parquet file, called ``name: row NUMBER``; it is read in batches."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise UsageError(f"{name}: parquet files need pyarrow: pip install pyarrow") from None
    try:
        with ParquetFile(stream) as parquet:
            names = parquet.schema_arrow.names
            _check_names(name, names, columns)
            is_flat = {*columns} <= {*names}
            batches = parquet.iter_batches(1000, columns=list(columns) if is_flat else None)
            rows = (row for batch in batches for row in batch.to_pylist())
            for row_number, row in enumerate(rows, start=1):
                yield f"{name}: row {row_number}", _inner(row)
    except (ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(f"{name}: not a whole parquet file ({reason})") from None


def _inner(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row's inner object: published translations are {"translation": {"en": ..., }}."""
    inner = row.get("translation")
    return inner if isinstance(inner, dict) else row


def _row(location: str, pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return the values of a JSON object by name; JSON readers would take the last of two."""
    row = dict(pairs)
    if len(row) < len(pairs):
        _check_names(location, [name for name, _ in pairs], row)
    return row


def _check_names(location: object, names: Sequence[str], used: Iterable[str]) -> None:
    for name in used:
        if (number := names.count(name)) > 1:
            raise UsageError(f"{location}: {number} columns are called {name!r}; rename one")
