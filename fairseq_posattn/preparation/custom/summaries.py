"""Texts and summaries of one's own, in two files or in the columns of a table."""

from functools import partial
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import SIDES, SummarizationCorpus
from fairseq_posattn.preparation.custom import pairs, tables
from fairseq_posattn.preparation.custom.pair_files import Table, fingerprint
from fairseq_posattn.text.words import spaces


def add_options(parser):
    parser.add_argument(
        "file", type=Path, nargs="?", metavar="FILE", help=f"the training set: {tables.HELP}"
    )
    parser.add_argument("--text", metavar="COLUMN", help="of FILE: the column of texts")
    parser.add_argument("--summary", metavar="COLUMN", help="of FILE: the column of summaries")
    pairs.add_file_options(
        parser,
        ("TEXT", "SUMMARY"),
        required=False,
        others="a file with the same columns, or of --train two files",
    )


def find_files(options):
    """What gives the pairs of each split that is not held out of the training set.

    Raises:
        UsageError: a file is not there, or the options do not go together.
    """
    columns = _columns(options)
    if columns is None:
        return pairs.find_files(options)
    table = partial(Table, columns=columns)
    held = pairs.held_files(options, table, 1, "a file with the same columns")
    return {"train": table(options.file)} | held


def _columns(options):
    """The names of the table's columns; None for two files."""
    columns = (options.text, options.summary)
    if options.file is None and options.train is None:
        raise UsageError(
            "no training set: name a table, FILE --text COLUMN --summary COLUMN, or two files, "
            "--train TEXT SUMMARY"
        )
    if options.file is not None and options.train is not None:
        raise UsageError(f"{options.file} and --train: give one of them")
    if options.file is None and any(columns):
        raise UsageError("--text and --summary are columns of a table: name it instead of --train")
    if options.file is not None and not all(columns):
        raise UsageError(f"{options.file}: name its columns, --text COLUMN --summary COLUMN")
    return columns if all(columns) else None


def settings(options):
    """What the text depends on, beside the files."""
    columns = _columns(options)
    return pairs.division(options) | ({} if columns is None else {"columns": columns})


CORPUS = SummarizationCorpus(
    name="own",
    summary="texts and summaries of your own, in a table or in two files",
    source=None,
    published={},
    recipe=None,
    find_files=find_files,
    fingerprint=fingerprint,
    write_text=partial(pairs.write_pairs, sides=SIDES, functions=[spaces] * 2),
    settings=settings,
    add_options=add_options,
    subwords="sentencepiece",  # which takes text of any language as it is
)
