"""Custom data, called ``own``: held-out examples, labeled text.

:mod:`.tables` reads it. :mod:`.own_pairs` has translations and summaries.
"""

import json
import math
import re
import unicodedata
from collections import Counter, defaultdict
from functools import partial
from itertools import islice
from pathlib import Path

import regex

from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.archives import Archives
from fairseq_posattn.preparation.corpus import SPLITS, ClassificationCorpus
from fairseq_posattn.preparation.examples import Example, checked_text, stratified_sample
from fairseq_posattn.preparation.tables import open_file, read_rows
from fairseq_posattn.preparation.vectors import fraction
from fairseq_posattn.text.vocabulary import SPECIAL, check_symbols
from fairseq_posattn.text.words import unsuited_share

HELD_OUT = ("test", "valid")
HELP = (
    ".csv, .tsv or .jsonl, compressed (.gz, .bz2, .xz) or not; the first line of a table names its "
    "columns"
)
INVISIBLE = regex.compile(r"[\s\p{C}]+")
ONE_CLASS = "score"  # label of examples with a number
WORD_RULES = {"moses": "moses-marks", "documents": "documents-marks", "spaces": "spaces"}
UNSUITED = 0.01  # share of letters above which subwords are the default
PER_MERGE, MOST_MERGES = 150, 8000  # characters of the training text for each merge, most merges


def file_or_size(text):
    """Return the file, number or share of examples that ``--valid`` or ``--test`` names."""
    if text.isdecimal() and int(text):
        return int(text)
    return fraction(text) if re.fullmatch(r"\d*\.?\d+", text) else Path(text)


def held_out_size(size, number):
    """Return how many of ``number`` examples a number or share is, at least one."""
    return max(1, size if isinstance(size, int) else round(number * size))


def files_as_archive(paths):
    """Return text files as one archive, for its fingerprint."""
    return Archives("files", list(map(open_file, paths)))


def text_of(value, column, place):
    """Return the text in a column of a row; raise :exc:`UsageError` if it is not text."""
    return checked_text(value, place, f"column {column!r}", "; correct it, or remove the row")


def identity(*texts):
    """Return a hash that ignores spaces, control characters, case and Unicode form."""
    forms = (unicodedata.normalize("NFKC", text).casefold() for text in texts)
    return hash(tuple(INVISIBLE.sub("", text) for text in forms))


def hold_out(examples, seed, sizes, name):
    """Return the indices of held-out examples by split, with the same share of each class.

    Splits are disjoint in their texts: repeated ones stay in training or, where the others do not
    suffice, move with all their examples. An example of each class stays in training. ``examples``
    are pairs of a class or None and :func:`identity`; ``sizes`` are by split.
    """
    labels, by_text = [label for label, _ in examples], defaultdict(list)
    for index, (_, text) in enumerate(examples):
        by_text[text].append(index)
    free = [indices for indices in by_text.values() if len(indices) == 1]
    if len(free) < sum(sizes.values()):
        free = list(by_text.values())
    share = len(free) / sum(map(len, free))  # texts per example
    chosen, trained = {}, Counter(labels)
    for split, size in sizes.items():
        firsts = [labels[indices[0]] for indices in free]
        sample = stratified_sample(firsts, seed, max(1, round(size * share)))
        chosen[split] = [free[number] for number in sample]
        free = [indices for number, indices in enumerate(free) if number not in sample]
        trained.subtract(labels[index] for indices in chosen[split] for index in indices)
    for split, texts in chosen.items():
        kept = (text for text in texts if all(trained[labels[index]] > 0 for index in text))
        chosen[split] = {index for text in kept for index in text}
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
    about = "tokenization: moses; documents: moses, with <sep> between sentences; spaces: the text "
    about += "is tokenized already (default: moses, or subwords)"
    parser.add_argument("--words", choices=WORD_RULES, help=about)
    about = "learn SentencePiece's subwords of the unchanged text, or none (default: sentencepiece "
    about += f"if more than {UNSUITED:.0%} of the letters are combining marks, of scripts without "
    about += "spaces, or split by Moses)"
    parser.add_argument("--subwords", choices=("sentencepiece", "none"), help=about)
    about = "with --subwords sentencepiece: subwords to learn (default: by the size of the text)"
    parser.add_argument("--vocabulary-size", type=positive, metavar="N", help=about)


def changes(options):
    rule = WORD_RULES[options.words or "moses"]
    changed = {"word_rule": rule, "pairs": options.text_pair is not None}
    if options.score:
        changed |= {"scored": True, "labels": (ONE_CLASS,), "metrics": ("rmse",)}
    return changed | _choose_subwords(options)


def _choose_subwords(options):
    """Return the subwords of the corpus: given, or by the share of letters that words suit."""
    flags = ("words", "glove", "min_count", "language_model")
    [*needs_words] = (f"--{name.replace('_', '-')}" for name in flags if getattr(options, name))
    if options.subwords == "sentencepiece" and needs_words:
        problem = "cannot be combined with --subwords sentencepiece; leave one out"
        raise UsageError(f"{needs_words[0]}: {problem}")
    characters = Counter()
    for example in islice(examples(options.file, options), options.limit):
        for text in example.inputs:
            characters.update(text)
    share, chosen = unsuited_share(characters), options.subwords
    if chosen is None:
        chosen = "none" if needs_words or share <= UNSUITED else "sentencepiece"
    other = {"none": "sentencepiece", "sentencepiece": "none"}[chosen]
    say(
        f"--subwords {chosen}: {share:.1%} of the letters are combining marks, of scripts without "
        f"spaces, or split by Moses; --subwords {other} is the other choice"
    )
    if chosen == "none":
        if options.vocabulary_size:
            flag = f"--vocabulary-size {options.vocabulary_size}"
            raise UsageError(f"{flag}: needs --subwords sentencepiece; add that, or remove it")
        return {}
    merges = None if options.vocabulary_size else min(characters.total() // PER_MERGE, MOST_MERGES)
    return {"word_rule": "text", "subwords": chosen, "bpe_operations": merges}


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
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1.0 and 1 are the same number of JSON
    name = "_".join((value if isinstance(value, str) else json.dumps(value)).split())
    if value is None or not name:
        raise UsageError(f"{place}: no label in column {column!r}; fill it in, or remove the row")
    if isinstance(value, dict | list) or name in SPECIAL:
        raise UsageError(f"{place}: {shortened(value)} in column {column!r} cannot be a label")
    return checked_text(name, place, "the label")


def _number(value, column, place):
    try:
        if isinstance(value, bool) or "_" in str(value):  # which Python takes for numbers
            raise ValueError
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
    word_rule="moses-marks",
    given=given,
    settings=settings,
    add_options=add_options,
    changes=changes,
)
