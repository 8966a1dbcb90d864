"""Labelled text of one's own, as one more data set of classification."""

import math
from functools import partial
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.custom import tables
from fairseq_posattn.preparation.custom.division import HELD_OUT, hold_out, identity
from fairseq_posattn.preparation.custom.files import Files
from fairseq_posattn.preparation.example import Example, checked_text, shortened
from fairseq_posattn.preparation.word_options import fraction
from fairseq_posattn.text.vocabulary import SPECIAL, check_symbols

ONE_CLASS = "score"  # of examples that have a number instead
RULES = ("moses", "documents", "spaces")


def add_options(parser):
    parser.add_argument("file", type=Path, metavar="FILE", help=f"the training set: {tables.HELP}")
    parser.add_argument("--text", metavar="COLUMN", required=True, help="the column of text")
    parser.add_argument(
        "--text-pair", metavar="COLUMN", help="of pairs, the column of the other text"
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument(
        "--label", metavar="COLUMN", help="the column of classes; spaces in them become _"
    )
    target.add_argument(
        "--score", metavar="COLUMN", help="or the column of numbers, which are learned as such"
    )
    for split in reversed(HELD_OUT):
        parser.add_argument(
            f"--{split}",
            type=_file_or_share,
            metavar="FILE|SHARE",
            default=0.1,
            help="a file with the same columns, or the share of FILE that is held out, of each "
            "class alike, drawn by --seed (default: %(default)s)",
        )
    parser.add_argument(
        "--words",
        choices=RULES,
        default="moses",
        help="what makes words of text: Moses' tokeniser; documents, the same with <sep> between "
        "sentences; or spaces, for text that is tokenised already (default: %(default)s)",
    )


def _file_or_share(text):
    try:
        float(text)
    except ValueError:
        return Path(text)
    return fraction(text)


def changes(options):
    """What the options say of the data set."""
    told = {"word_rule": options.words, "pairs": options.text_pair is not None}
    if options.score:
        told |= {"scored": True, "labels": (ONE_CLASS,), "metrics": ("rmse",)}
    return told


def settings(options):
    """What the text depends on, beside the files."""
    names = ("text", "text_pair", "label", "score", "words", *HELD_OUT)
    told = {name: getattr(options, name) for name in names}
    return {name: str(value) for name, value in told.items() if value is not None}


def given(options):
    """The user's files."""
    held = [getattr(options, split) for split in HELD_OUT]
    return Files([options.file, *(value for value in held if isinstance(value, Path))])


def splits(_, options):
    """Readers of train, valid and test, by name.

    Raises:
        UsageError: the training set cannot be read, or is too small.
    """
    found = [(one.label, identity(*one.inputs)) for one in examples(options.file, options)]
    labels = [label for label, _ in found]
    shares = {split: getattr(options, split) for split in HELD_OUT}
    sizes = {
        split: max(1, round(len(labels) * share))
        for split, share in shares.items()
        if not isinstance(share, Path)
    }
    chosen = hold_out(found, options.seed, sizes, options.file)
    held = set().union(*chosen.values())
    readers = {"train": partial(_some, options, set(range(len(labels))) - held)}
    for split in reversed(HELD_OUT):
        if split in chosen:
            readers[split] = partial(_some, options, chosen[split])
        else:
            readers[split] = partial(_of_known_classes, options, shares[split], set(labels))
    return readers


def _some(options, indices):
    return (one for i, one in enumerate(examples(options.file, options)) if i in indices)


def _of_known_classes(options, path, labels):
    for example in examples(path, options):
        if example.label not in labels:
            raise UsageError(
                f"{example.place}: the label {example.label!r} is in no example of {options.file}: "
                "correct it, or put examples of it there"
            )
        yield example


def examples(path, options):
    """The labelled texts of a file.

    Raises:
        UsageError: says what is wrong with which line.
    """
    texts = [options.text] if options.text_pair is None else [options.text, options.text_pair]
    for place, (target, *inputs) in tables.read_rows(
        path, [options.label or options.score, *texts]
    ):
        for column, text in zip(texts, inputs, strict=True):
            tables.text_of(text, column, place)
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
        raise UsageError(f"{place}: no label in column {column!r}: fill it in, or remove the row")
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
            f"{place}: {shortened(value)} in column {column!r} is no number: correct it, or remove "
            "the row"
        )
    return number


CORPUS = ClassificationCorpus(
    name="own",
    summary="a table of your own, of texts or pairs with labels or numbers",
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
