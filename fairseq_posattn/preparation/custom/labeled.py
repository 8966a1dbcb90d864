"""Custom labeled text: a table described as a data set of classification."""

import math
from functools import partial
from pathlib import Path

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation import custom as rows
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.labeled_text import Example, checked_text
from fairseq_posattn.text.vocabulary import SPECIAL, check_symbols

ONE_CLASS = "score"  # label of examples with a number
RULES = ("moses", "documents", "spaces")


def add_options(parser):
    parser.add_argument("file", type=Path, metavar="FILE", help=f"the training set: {rows.HELP}")
    parser.add_argument("--text", metavar="COLUMN", required=True, help="column of the text")
    parser.add_argument("--text-pair", metavar="COLUMN", help="column of a pair's second text")
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--label", metavar="COLUMN", help="column of the classes; their spaces become _"
    )
    target.add_argument("--score", metavar="COLUMN", help="or column of numbers, for regression")
    held = (
        "file with the same columns, or how many examples of FILE, or which share of each class, "
        "to hold out (default: 0.1)"
    )
    given = {"type": rows.file_or_size, "metavar": "FILE|N|SHARE", "default": 0.1}
    for split in reversed(rows.HELD_OUT):
        parser.add_argument(f"--{split}", help=held, **given)
    parser.add_argument(
        "--words",
        choices=RULES,
        default="moses",
        help="tokenization: moses; documents: moses, with <sep> between sentences; spaces: the "
        "text is tokenized already (default: %(default)s)",
    )


def changes(options):
    changed = {"word_rule": options.words, "pairs": options.text_pair is not None}
    if options.score:
        changed |= {"scored": True, "labels": (ONE_CLASS,), "metrics": ("rmse",)}
    return changed


def settings(options):
    names = ("text", "text_pair", "label", "score", "words", *rows.HELD_OUT)
    return {name: str(getattr(options, name)) for name in names}


def given(options):
    held = [getattr(options, split) for split in rows.HELD_OUT]
    return rows.files_as_archive(
        [options.file, *(value for value in held if isinstance(value, Path))]
    )


def splits(_, options):
    keys = [(one.label, rows.identity(*one.inputs)) for one in examples(options.file, options)]
    sources = {split: getattr(options, split) for split in rows.HELD_OUT}
    sizes = {
        split: rows.held_out_size(size, len(keys))
        for split, size in sources.items()
        if not isinstance(size, Path)
    }
    chosen = rows.hold_out(keys, options.seed, sizes, options.file)
    chosen["train"] = set(range(len(keys))).difference(*chosen.values())
    labels = {label for label, _ in keys}
    return {
        split: partial(_selected, options, chosen[split])
        if split in chosen
        else partial(_of_known_classes, options, sources[split], labels)
        for split in ("train", "valid", "test")
    }


def _selected(options, indices):
    return (one for i, one in enumerate(examples(options.file, options)) if i in indices)


def _of_known_classes(options, path, labels):
    for example in examples(path, options):
        if example.label not in labels:
            raise UsageError(
                f"{example.place}: the label {example.label!r} is in no example of {options.file}; "
                "correct it, or add examples of it there"
            )
        yield example


def examples(path, options):
    """Yield the labeled texts of a table; raise :exc:`UsageError` naming a malformed line."""
    texts = [options.text] if options.text_pair is None else [options.text, options.text_pair]
    for place, (target, *inputs) in rows.read_rows(path, [options.label or options.score, *texts]):
        for column, text in zip(texts, inputs, strict=True):
            rows.text_of(text, column, place)
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


CORPUS = ClassificationCorpus(
    name="own",
    summary="a custom table of texts or pairs with labels or numbers",
    source=None,
    alternatives=(),
    splits=splits,
    labels=None,
    word_rule="moses",
    published={},
    recipe=None,
    given=given,
    settings=settings,
    add_options=add_options,
    changes=changes,
)
