"""Custom pairs, translations or summaries: two parallel files, or two columns of a table."""

import re
import unicodedata
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from fairseq_posattn.common.cli import add_count
from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.progress import map_lines, say
from fairseq_posattn.preparation import held_out, like, tables
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import (
    SIDES,
    SPLITS,
    PairCorpus,
    Readers,
    SummarizationCorpus,
    TranslationCorpus,
)
from fairseq_posattn.preparation.held_out import HELD_OUT, file_or_size
from fairseq_posattn.preparation.like import Template
from fairseq_posattn.preparation.parallel import LineWriter, Pair, Rule, say_left_out
from fairseq_posattn.preparation.round_trip import Sample, write_sample
from fairseq_posattn.preparation.segmentation import BY_TEXT, MOST_PIECES, USUAL_MERGES
from fairseq_posattn.preparation.vectors import add_seed
from fairseq_posattn.text import words
from fairseq_posattn.text.languages import code_hint, code_of, file_code, is_language
from fairseq_posattn.text.lines import parallel_lines
from fairseq_posattn.text.moses import RULES, WITHOUT_SPACES, rules_warning
from fairseq_posattn.text.plain_text import in_form, is_visible
from fairseq_posattn.text.vocabulary import check_symbols

MOST_HELD_OUT = 1000
MANY_COPIES = 0.5  # of the pairs; names and numbers may be equal
SUBWORDS = {
    "sentencepiece": ("text", "SentencePiece of the unchanged text, for every language"),
    "subword_nmt": ("moses-escaped", "byte-pair encoding of Moses tokens"),
    "none": ("spaces", "the text is segmented already"),
}
# Options of the number of subwords, and the kinds of subwords that they serve.
SIZES = {
    "bpe_operations": ("sentencepiece", "subword_nmt"),
    "vocabulary_size": ("sentencepiece",),
}
# Usual suffixes that are also codes of rare languages: not inferred
NO_LANGUAGES = re.compile(
    "all|bpe|csv|dat|dev|hyp|low|out|raw|ref|src|tgt|tok|trg|tsv|txt|xml|zip|zst", re.IGNORECASE
)
ESCAPE = re.compile(r"&(?:amp|apos|quot|lt|gt|#124|#91|#93);")


def read_pairs(paths: Sequence[Path], columns: Sequence[str] | None) -> Iterator[tuple[Pair, Pair]]:
    """Yield ``(locations, pair)`` of two parallel files, or of rows of a table with ``columns``."""
    if columns:
        for location, values in tables.read_rows(paths[0], columns):
            locations = (location, location)
            yield locations, tuple(map(tables.text_of, values, columns, locations))
    else:
        lines = parallel_lines(**{str(path): tables.text_lines(path) for path in paths})
        for number, pair in enumerate(lines, start=1):
            yield tuple(f"{path}:{number}" for path in paths), pair


def _add_file_options(parser: ArgumentParser, sides: tuple[str, str]) -> None:
    training = f"the training set: {tables.HELP}"
    parser.add_argument("file", type=Path, nargs="?", metavar="FILE", help=training)
    files = "or two parallel files: text in UTF-8, compressed (.gz, .bz2, .xz) or not"
    parser.add_argument("--train", nargs=2, type=Path, metavar=sides, help=files)
    held = (
        "file with the same columns, or two files with --train; or how many pairs of the training "
        f"set, or which share, to hold out (default: 0.1, at most {MOST_HELD_OUT:,} pairs)"
    )
    names = ("FILE|N|SHARE", "FILE")
    for split in reversed(HELD_OUT):
        parser.add_argument(f"--{split}", nargs="+", type=file_or_size, metavar=names, help=held)
    add_seed(parser)
    forms = "Unicode form of all text, in translation too: nfc composes letters and accents, nfkc "
    forms += "also unifies compatible characters (default: %(default)s)"
    choices = ("none", "nfc", "nfkc")
    parser.add_argument("--normalize", choices=choices, default=choices[0], help=forms)
    like.add_option(parser)


def add_translation_options(parser: ArgumentParser) -> None:
    _add_file_options(parser, ("SOURCE", "TARGET"))
    columns = "columns of the source and the target text of FILE"
    parser.add_argument("--columns", nargs=2, metavar=("SOURCE", "TARGET"), help=columns)
    code = "language, such as fr, pt-BR or yue (default: suffix of the file, or name of the column)"
    for side in SIDES:
        parser.add_argument(f"--{side}-lang", metavar="LANGUAGE", help=f"{side} {code}")
    kinds = "; ".join(f"{name}: {what}" for name, (_, what) in SUBWORDS.items())
    kinds += " (default: %(default)s)"
    parser.add_argument("--subwords", choices=SUBWORDS, default="sentencepiece", help=kinds)
    size = "with --subwords sentencepiece: subwords to learn"
    add_count(parser, "--vocabulary-size", None, size, BY_TEXT)
    separate = "one dictionary for each language (default: a joined one, for shared embeddings)"
    parser.add_argument("--separate-dictionaries", action="store_true", help=separate)


def add_summary_options(parser: ArgumentParser) -> None:
    _add_file_options(parser, ("TEXT", "SUMMARY"))
    parser.add_argument("--text", metavar="COLUMN", help="column of the texts of FILE")
    parser.add_argument("--summary", metavar="COLUMN", help="column of the summaries of FILE")
    about = "with --subwords wordpiece and no --cased: remove accents and marks, as BERT does"
    parser.add_argument("--strip-accents", action="store_true", help=about)


def find_files(options: Namespace) -> dict[str, list[Path]]:
    """Return the files of each split that is not held out of the training set."""
    is_table = _columns(options) is not None
    number, needed = (1, "a file with the same columns") if is_table else (2, "two files")
    sources = {"train": [options.file] if is_table else options.train}
    for split in HELD_OUT:
        values = getattr(options, split)
        if values is None or len(values) == 1 and _held_size(options, split):
            continue
        if len(values) != number or not all(isinstance(value, Path) for value in values):
            raise UsageError(
                f"--{split} {' '.join(map(str, values))}: takes {needed}, or a number or share of "
                "pairs to hold out"
            )
        sources[split] = values
    for split, paths in sources.items():
        (first, *others), named = paths, f"--{split} {' '.join(map(str, paths))}"
        if any(first.exists() and other.exists() and first.samefile(other) for other in others):
            raise UsageError(f"{named}: both are the same file; name the other side's")
        suffixes, expected = (list(map(tables.file_suffix, p)) for p in (paths, sources["train"]))
        if suffixes == expected[::-1] != expected:
            raise UsageError(f"{named}: the sides are in the other order in --train; swap them")
    return sources


def _columns(options: Namespace) -> tuple[str, ...] | None:
    """Return the names of the table's columns; None if two files were given."""
    if hasattr(options, "columns"):
        columns, flags = options.columns or (), "--columns SOURCE TARGET"
    else:
        columns, flags = (options.text, options.summary), "--text COLUMN --summary COLUMN"
    is_table, names = options.file is not None, tuple(filter(None, columns))
    if is_table == (options.train is not None) or len(names) != 2 * is_table:
        raise UsageError(f"name the training set: FILE {flags}, or two files with --train")
    if is_table and names[0] == names[1]:
        raise UsageError(f"{flags}: both columns are {names[0]!r}; name the other side's")
    return names or None


def languages(options: Namespace) -> tuple[str, ...]:
    """Return the two languages: given, or the suffixes of the files, or the columns' names.

    With ``--like`` they must be the model's, and its languages are the default of other suffixes.
    """
    inferred = _columns(options) or [tables.file_suffix(path)[1:] for path in options.train]
    template, sides = options.template, []
    expected = template.rules.languages if template else (None, None)
    for side, default, model in zip(SIDES, inferred, expected, strict=True):
        name = getattr(options, f"{side}_lang")
        option = f"--{side}-lang {name or default or 'LANGUAGE'}"
        if NO_LANGUAGES.fullmatch(default) or not is_language(default):
            name = name or model
            if name is None:
                raise UsageError(f"{option}: cannot be inferred; give a code such as fr")
        name = name or default
        if not re.fullmatch(r"[\w-]+", name, re.ASCII):
            raise UsageError(f"{option}: file names take letters, digits, - and _ only")
        if model not in (None, file_code(name)):
            fix = f"name the {model} side's file or column"
            if file_code(name) not in expected:  # else it is the other side's text
                fix += f", or add --{side}-lang {model}"
            raise UsageError(f"{option}: the {side} language of {template} is {model}; {fix}")
        if options.subwords == "subword_nmt" and not is_language(name):
            raise UsageError(
                f"{option}: unknown code, by which Moses cannot tokenize (--subwords sentencepiece "
                f"takes any name); {code_hint(name)}"
            )
        if "-" in name:
            say(f"language {name}: {file_code(name)} in names of files, as fairseq needs")
        sides.append(file_code(name))
    if sides[0] == sides[1]:
        fix = f"name one otherwise, such as --target-lang {sides[0]}_x_new"
        raise UsageError(f"--source-lang and --target-lang are both {sides[0]}; {fix}")
    if [*map(file_code, inferred)] == sides[::-1]:
        swapped = f"the files or columns are {inferred[0]} and {inferred[1]}"
        raise UsageError(f"--source-lang {sides[0]}: {swapped}; name them in the other order")
    return tuple(sides)


def changes(options: Namespace) -> dict[str, Any]:
    if template := options.template:
        rules = template.rules
        described = {"word_rule": rules.word_rule, "subwords": rules.subwords, "lower": rules.lower}
        return {"sides": languages(options), **described}
    sizes = {name: size for name in SIZES if (size := getattr(options, name)) is not None}
    for name, size in sizes.items():
        flag, kinds = f"--{name.replace('_', '-')} {size}", SIZES[name]
        if options.subwords not in kinds:
            needed = " or ".join(kinds)
            raise UsageError(f"{flag}: needs --subwords {needed}; add that, or remove it")
        if len(sizes) > 1:
            raise UsageError(f"{flag}: --vocabulary-size counts them already; remove one of them")
    subwords = None if options.subwords == "none" else options.subwords
    rule = SUBWORDS[options.subwords][0]
    return {"sides": languages(options), "word_rule": rule, "subwords": subwords}


def summary_changes(options: Namespace) -> dict[str, Any]:
    if options.template:
        return {"word_rule": options.template.rules.word_rule}
    return {"word_rule": "text" if options.subwords == "sentencepiece" else "spaces"}


def kept_by_translation(template: Template) -> dict[str, Any]:
    rules = template.rules
    return {
        **{"subwords": rules.subwords or "none", "separate_dictionaries": not rules.joined},
        **{"normalize": rules.normalize or "none", **dict.fromkeys(SIZES)},
    }


def kept_by_summaries(template: Template) -> dict[str, Any]:
    rules = template.rules
    return {
        **{"subwords": rules.subwords, "vocabulary_size": None, "wordpiece_vocabulary": None},
        **{"cased": False, "strip_accents": False, "max_pieces": rules.longest or MOST_PIECES},
        "normalize": rules.normalize or "none",
    }


def settings(options: Namespace) -> dict[str, Any]:
    held = {split: _held_size(options, split) for split in HELD_OUT}
    form = {} if options.normalize == "none" else {"normalize": options.normalize}
    return {**held, "seed": options.seed, "columns": _columns(options), **form}


def _held_size(options: Namespace, split: str) -> int | float | None:
    """Return the number or share of pairs to hold out; None if it is not given."""
    size = (getattr(options, split) or [None])[0]
    return None if isinstance(size, Path) else size


def local_files(options: Namespace) -> Archive:
    return tables.files_as_archive(chain.from_iterable(find_files(options).values()))


def write_translations(
    readers: Readers, folder: Path, corpus: PairCorpus, options: Namespace
) -> None:
    """Write pairs as :func:`write_pairs` does; warn of languages that Moses does not serve."""
    for side in corpus.sides if corpus.word_rule in RULES and not options.template else ():
        warning = rules_warning(side)
        if code_of(side) in WITHOUT_SPACES:
            warning = f"{side}: Moses has no rules for this language; it splits no words"
        if warning:
            say(f"warning: {warning}; --subwords sentencepiece serves every language")

    def check(locations: Pair, pair: Pair) -> bool:
        if options.subwords != "none":
            return any(map(ESCAPE.search, pair))
        for location, line in zip(locations, pair, strict=True):
            check_symbols(line, location, "" if options.template else "--subwords sentencepiece")
        return False

    write_pairs(readers, folder, corpus, options, check)


def write_pairs(
    readers: Readers,
    folder: Path,
    corpus: PairCorpus,
    options: Namespace,
    check: Callable[[Pair, Pair], bool] = lambda locations, pair: False,
) -> None:
    """Write ``{split}.{side}`` of given and held-out pairs, and the raw test set beside ``folder``.

    ``check`` raises for malformed pairs and finds Moses escapes.
    """
    sampled: list[Pair] = []
    sides, form = corpus.sides, None if options.normalize == "none" else options.normalize
    to_nfc, untouched = ": give --normalize nfc", ", or give --subwords none"
    if options.template:  # it decides these options
        to_nfc = untouched = ""
    rules = [_rule_of(corpus, side, options.template) for side in sides]

    def tokenize(pair: Pair) -> tuple[Pair, Pair]:
        texts = [in_form(line, form) for line in pair]
        return texts, [rule(text) for rule, text in zip(rules, texts, strict=True)]

    for split, read in readers.items():
        counts, sample = Counter[str](), Sample()
        pairs = _complete(islice(read(), options.limit), sides, check, counts)
        with (
            LineWriter(folder / split, sides) as writer,
            LineWriter(folder.parent / split, sides if split == "test" else ()) as raw,
        ):
            for pair, tokens in map_lines(tokenize, pairs, options.jobs, f"reading {split}"):
                if not all(map(is_visible, tokens)):  # Moses drops what cannot be printed
                    counts["empty"] += 1
                    continue
                writer.write(tokens)
                sample.add(pair)
                if raw.files:
                    raw.write(pair)
        sampled += sample.pairs
        for side in () if form else sides:
            if counts[side]:
                share = counts[side] / max(writer.count, 1)
                lines = f"{counts[side]:,} of {writer.count:,} lines of {side} ({share:.1%})"
                say(
                    f"warning: {split}: {lines} are not in "
                    "Unicode's composed form, NFC; equal text in two forms is different text to a "
                    f"model and to scores{to_nfc}"
                )
        say_left_out(split, counts["empty"], writer.count)
        if counts["escaped"]:
            say(
                f"warning: {split}: {counted(counts['escaped'], 'pair')} with Moses escapes such "
                f"as &apos;: unescape tokenized text{untouched}"
            )
        if counts["copies"] > MANY_COPIES * writer.count:
            copies = f"{counted(counts['copies'], 'pair')} of {writer.count:,}"
            say(f"warning: {split}: {copies} have equal sides: is one file or column given twice?")
        if not writer.count:
            sources = find_files(options)
            name = sources.get(split, sources["train"])[0]
            raise UsageError(f"{name}: has no pairs for {split}")
    write_sample(sampled, folder, sides)


def _rule_of(corpus: PairCorpus, side: str, template: Template | None) -> Rule:
    if template:
        return template.tokenizer(side)
    rule = corpus.word_rule
    return RULES[rule](side) if rule in RULES else words.RULES[rule]


def _complete(
    pairs: Iterable[tuple[Pair, Pair]],
    sides: Sequence[str],
    check: Callable[[Pair, Pair], bool],
    counts: Counter[str],
) -> Iterator[Pair]:
    """Yield the pairs without an empty side; count what the warnings are about."""
    for locations, pair in pairs:
        if not all(map(is_visible, pair)):
            counts["empty"] += 1
            continue
        counts["escaped"] += check(locations, pair)
        counts["copies"] += pair[0] == pair[1]
        for side, line in zip(sides, pair, strict=True):
            counts[side] += not unicodedata.is_normalized("NFC", line)
        yield pair


def read(archive: Archive, options: Namespace) -> Readers:
    """Return functions that yield ``(locations, pair)``, by split."""
    sources, columns = find_files(options), _columns(options)
    readers = {split: partial(read_pairs, paths, columns) for split, paths in sources.items()}
    if len(readers) == len(SPLITS):
        return readers
    keys = [(None, held_out.identity(source)) for _, (source, _) in readers["train"]()]
    number, name = len(keys), sources["train"][0]
    sizes = {}
    for split in (split for split in HELD_OUT if split not in readers):
        size = _held_size(options, split) or min(MOST_HELD_OUT, number // 10)
        sizes[split] = held_out.held_out_size(size, number)
    return {**readers, **held_out.divided(readers["train"], keys, options.seed, sizes, name)}


TRANSLATION = TranslationCorpus(
    name="own",
    summary="custom pairs in any two languages, in two parallel files or a table",
    sides=(),
    word_rule="moses-escaped",
    local_files=local_files,
    read=read,
    write=write_translations,
    settings=lambda options: {**settings(options), "subwords": options.subwords},
    add_options=add_translation_options,
    changes=changes,
    kept=kept_by_translation,
    bpe_operations=USUAL_MERGES,
)
SUMMARIZATION = SummarizationCorpus(
    name="own",
    summary="custom texts and summaries, in two parallel files or a table",
    local_files=local_files,
    read=read,
    write=write_pairs,
    settings=settings,
    changes=summary_changes,
    kept=kept_by_summaries,
    add_options=add_summary_options,
    subwords="sentencepiece",  # works for any language without tokenization
)
