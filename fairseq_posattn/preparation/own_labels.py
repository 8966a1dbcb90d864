"""Custom labeled text, ``posattn prepare classification own``: a table of texts and labels."""

import json
import math
import unicodedata
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation import held_out, like
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import SPLITS, ClassificationCorpus, Readers
from fairseq_posattn.preparation.examples import Example, checked_text
from fairseq_posattn.preparation.held_out import HELD_OUT, file_or_size
from fairseq_posattn.preparation.like import Template
from fairseq_posattn.preparation.tables import HELP, files_as_archive, read_rows, text_of
from fairseq_posattn.text.plain_text import INVISIBLE, TO_NFC, is_visible
from fairseq_posattn.text.vocabulary import SPECIAL, check_symbols
from fairseq_posattn.text.words import unsuited_share

SCORED = "score"  # label of examples with a number
WORD_RULES = {"moses": "moses-marks", "documents": "documents-any-script", "spaces": "spaces"}
UNSUITED = 0.01  # share of letters above which subwords are the default
PER_MERGE, MOST_MERGES = 150, 8000  # characters of the training text for each merge, most merges


def add_options(parser: ArgumentParser) -> None:
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
    for split in reversed(HELD_OUT):
        parser.add_argument(
            f"--{split}", type=file_or_size, metavar="FILE|N|SHARE", default=0.1, help=held
        )
    about = "tokenization: moses; documents: moses, with <sep> between sentences; spaces: the text "
    about += "is tokenized already (default: moses, or subwords)"
    parser.add_argument("--words", choices=WORD_RULES, help=about)
    about = "learn SentencePiece's subwords of the unchanged text, or none (default: sentencepiece "
    about += f"if more than {UNSUITED:.0%}% of the letters are combining marks, of scripts without "
    about += "spaces, split by Moses or, without --cased, Turkish dotted I or dotless i)"
    parser.add_argument("--subwords", choices=("sentencepiece", "none"), help=about)
    about = "with --subwords sentencepiece: subwords to learn (default: by the size of the text)"
    parser.add_argument("--vocabulary-size", type=positive, metavar="N", help=about)
    like.add_option(parser)


def changes(options: Namespace) -> dict[str, Any]:
    target = "--label" if options.label else "--score"
    columns = {options.text: "--text"}
    for flag, name in ("--text-pair", options.text_pair), (target, options.label or options.score):
        if (other := columns.setdefault(name, flag)) != flag:
            raise UsageError(f"{flag} {name}: is the column of {other}; name another one")
    rule = WORD_RULES[options.words or "moses"]
    changed: dict[str, Any] = {"word_rule": rule, "pairs": options.text_pair is not None}
    if options.score:
        changed |= {"scored": True, "labels": (SCORED,), "metrics": ("rmse",)}
    if options.template:
        return changed | _model_rules(options, replace(CLASSIFICATION, **changed))
    return changed | _choose_subwords(options)


def _model_rules(options: Namespace, corpus: ClassificationCorpus) -> dict[str, Any]:
    """Return what ``--like`` changes in the corpus; raise UsageError if the columns do not fit."""
    template, rules = options.template, options.template.rules
    if (rules.task, rules.criterion) != (corpus.task, corpus.criterion):
        wanted, actual = (f"{data.task} by {data.criterion}" for data in (rules, corpus))
        fix = "give the columns of its kind: --text, --text-pair, --label or --score"
        raise UsageError(f"{template}: is of {wanted}, these columns of {actual}; {fix}")
    changed = {"word_rule": rules.word_rule, "subwords": rules.subwords}
    return changed if options.score else changed | {"labels": template.labels}


def kept(template: Template) -> dict[str, Any]:
    rule = template.rules.word_rule
    words = next((name for name, its_rule in WORD_RULES.items() if its_rule == rule), None)
    names = ("subwords", "vocabulary_size", "glove", "min_count", "language_model")
    return {"words": words, "cased": False, **dict.fromkeys(names)}


def _choose_subwords(options: Namespace) -> dict[str, Any]:
    """Return the subwords of the corpus: given, or by the share of letters that words suit."""
    flags = ("words", "glove", "min_count", "language_model")
    [*needs_words] = (f"--{name.replace('_', '-')}" for name in flags if getattr(options, name))
    if options.subwords == "sentencepiece" and needs_words:
        problem = "cannot be combined with --subwords sentencepiece; leave one out"
        raise UsageError(f"{needs_words[0]}: {problem}")
    characters = Counter[str]()
    for example in islice(examples(options.file, options), options.limit):
        for text in example.inputs:
            characters.update(text)
    share, chosen = unsuited_share(characters, options.cased), options.subwords
    if chosen is None:
        chosen = "none" if needs_words or share <= UNSUITED else "sentencepiece"
    other = {"none": "sentencepiece", "sentencepiece": "none"}[chosen]
    say(
        f"--subwords {chosen}: {share:.1%} of the letters are combining marks, of scripts without "
        f"spaces, split by Moses or, without --cased, Turkish dotted I or dotless i; --subwords "
        f"{other} is the other choice"
    )
    if chosen == "none":
        if options.vocabulary_size:
            flag = f"--vocabulary-size {options.vocabulary_size}"
            raise UsageError(f"{flag}: needs --subwords sentencepiece; add that, or remove it")
        return {}
    merges = None if options.vocabulary_size else min(characters.total() // PER_MERGE, MOST_MERGES)
    return {"word_rule": "text", "subwords": chosen, "bpe_operations": merges}


def settings(options: Namespace) -> dict[str, Any]:
    names = ("text", "text_pair", "label", "score", "words", *HELD_OUT)
    return {name: str(getattr(options, name)) for name in names}


def local_files(options: Namespace) -> Archive:
    held = [getattr(options, split) for split in HELD_OUT]
    return files_as_archive([options.file, *(value for value in held if isinstance(value, Path))])


def read(archive: Archive, options: Namespace) -> Readers:
    labels: set[str | None] = set()
    is_plain = options.file.suffix.lower() in (".csv", ".tsv")
    to_nfc = TO_NFC if is_plain else "unicodedata.normalize('NFC', text) in Python"
    problem = f"is in no example of {options.file}; correct it, or add examples of it there"
    if options.template and options.label:
        labels.update(options.template.labels)
        problem = f"is no class of {options.template}; correct it, or prepare without --like"

    def check(path: Path) -> list[tuple[str | None, int]]:
        """Return class and identity of each example; warn if some are not composed."""
        keys, decomposed = [], 0
        for label, inputs, location, _ in examples(path, options):
            if labels and label not in labels:
                forms = {unicodedata.normalize(form, str(label)) for form in ("NFC", "NFD")}
                why = f"has another Unicode form in the classes; convert both files by {to_nfc}"
                why = why if forms & labels else problem
                raise UsageError(f"{location}: the label {label!r} {why}")
            decomposed += not all(unicodedata.is_normalized("NFC", text) for text in inputs)
            keys.append((label, held_out.identity(*inputs)))
        if decomposed:
            say(
                f"warning: {path}: {decomposed:,} of {len(keys):,} texts are not in Unicode's "
                "composed form, NFC, and equal text in two forms is different text to a model: "
                f"convert the file, and later the text for posattn predict, by {to_nfc}"
            )
        return keys

    keys = check(options.file)
    labels.update(label for label, _ in keys)
    known: dict[str, str] = {}
    for label in sorted(map(str, labels)):
        other = known.setdefault(unicodedata.normalize("NFC", INVISIBLE.sub("", label)), label)
        if other != label:
            two = f"{label} in two Unicode forms, {ascii(other)} and {ascii(label)}"
            raise UsageError(f"{options.file}: --label: has the class {two}; write it in one")
    held = {split: getattr(options, split) for split in HELD_OUT}
    files = {split: path for split, path in held.items() if isinstance(path, Path)}
    for path in dict.fromkeys(files.values()):
        check(path)
    sizes = {s: held_out.held_out_size(n, len(keys)) for s, n in held.items() if s not in files}
    training = partial(examples, options.file, options)
    divided = held_out.divided(training, keys, options.seed, sizes, options.file)
    readers = {split: partial(examples, path, options) for split, path in files.items()}
    return {split: (divided | readers)[split] for split in SPLITS}


def examples(path: Path, options: Namespace) -> Iterator[Example]:
    """Yield the labeled texts of a table; raise :exc:`UsageError` naming a malformed line."""
    texts = [options.text] if options.text_pair is None else [options.text, options.text_pair]
    for location, (target, *inputs) in read_rows(path, [options.label or options.score, *texts]):
        for column, text in zip(texts, inputs, strict=True):
            text_of(text, column, location)
            if options.words == "spaces":
                words = text if options.cased else text.lower()
                other = "" if options.template else "--words moses"
                check_symbols(words, f"{location}: column {column!r}", other)
        if options.score:
            yield Example(SCORED, tuple(inputs), location, _number(target, options.score, location))
        else:
            yield Example(_class_name(target, options.label, location), tuple(inputs), location)


def _class_name(value: Any, field: str, location: str) -> str:
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 and 1 are the same number of JSON
    text = json.dumps(value) if isinstance(value, int | float) else value
    is_missing = value is None or value != value  # NaN is not equal
    name = "" if is_missing else "_".join(str(text).split())
    if not is_visible(name):
        raise UsageError(f"{location}: no label in column {field!r}; fill it in, or remove the row")
    if not isinstance(text, str) or name in SPECIAL:
        raise UsageError(f"{location}: {shortened(value)} in column {field!r} cannot be a label")
    return checked_text(name, location, "the label")


def _number(value: Any, field: str, location: str) -> float:
    try:
        if isinstance(value, bool) or "_" in str(value):  # which Python takes for numbers
            raise ValueError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(
            f"{location}: {shortened(value)} in column {field!r} is not a number; correct it, or "
            "remove the row"
        )
    return number


CLASSIFICATION = ClassificationCorpus(
    name="own",
    summary="a custom table of texts or pairs with labels or numbers",
    read=read,
    word_rule="moses-marks",
    local_files=local_files,
    settings=settings,
    add_options=add_options,
    changes=changes,
    kept=kept,
)
