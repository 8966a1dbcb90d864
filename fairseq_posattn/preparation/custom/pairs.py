"""Pairs of one's own: what is held out, what is left out; and the data set of translation."""

import re
from functools import partial
from itertools import islice
from pathlib import Path

from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.corpus import SPLITS, TranslationCorpus
from fairseq_posattn.preparation.custom.division import HELD_OUT, hold_out, identity
from fairseq_posattn.preparation.custom.pair_files import TwoFiles, fingerprint
from fairseq_posattn.preparation.pairs import PairWriter, map_pairs
from fairseq_posattn.text.moses import RULES
from fairseq_posattn.text.vocabulary import check_symbols
from fairseq_posattn.text.words import spaces

MOST_HELD_OUT = 1000
LANGUAGE = re.compile(r"[A-Za-z0-9_]+")
SUBWORDS = {
    "subword_nmt": ("moses-escaped", "Moses' words, in which byte pairs are merged"),
    "sentencepiece": ("spaces", "SentencePiece of the text as it is, for languages without spaces"),
    "none": ("spaces", "the text is in words or subwords already"),
}
# Of which subwords an option is the size.
SIZES = {"bpe_operations": "subword_nmt", "vocabulary_size": "sentencepiece"}
USUAL_SIZE = 10_000  # of either


def add_file_options(parser, sides, required=True, others="two files"):
    """The options that name the files, for translation and summarization.

    Args:
        sides: what to call the files of ``--train``.
        required: whether it is what there must be.
        others: what ``--valid`` and ``--test`` take, beside a number.
    """
    parser.add_argument(
        "--train",
        nargs=2,
        type=Path,
        metavar=sides,
        required=required,
        help="the training set, a line of the one to a line of the other; text in UTF-8, "
        "compressed (.gz, .bz2, .xz) or not",
    )
    for split in reversed(HELD_OUT):
        parser.add_argument(
            f"--{split}",
            nargs="+",
            type=_path_or_number,
            metavar=("FILE|N", "FILE"),
            help=f"{others}, or how many pairs of the training set are held out, drawn by --seed "
            f"(default: a tenth, at most {MOST_HELD_OUT:,})",
        )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        default=1,
        help="of what is held out (default: %(default)s)",
    )


def _path_or_number(text):
    return int(text) if text.isdecimal() else Path(text)


def add_options(parser):
    add_file_options(parser, ("SOURCE", "TARGET"))
    for side in ("source", "target"):
        parser.add_argument(
            f"--{side}-lang",
            metavar="LANGUAGE",
            required=True,
            help=f"of the {'first' if side == 'source' else 'second'} files: a code such as fr",
        )
    told = "; ".join(f"{name}: {what}" for name, (_, what) in SUBWORDS.items())
    parser.add_argument(
        "--subwords",
        choices=SUBWORDS,
        default="subword_nmt",
        help=f"{told} (default: %(default)s)",
    )
    parser.add_argument(
        "--vocabulary-size",
        type=positive,
        metavar="N",
        default=USUAL_SIZE,
        help="of --subwords sentencepiece: pieces to learn (default: %(default)s)",
    )
    parser.set_defaults(wordpiece_vocabulary=None, cased=False, max_pieces=None)
    parser.add_argument(
        "--separate-dictionaries",
        action="store_true",
        help="a dictionary for each language (default: one for both, which can share embeddings)",
    )


def changes(options):
    """What the options say of the data set.

    Raises:
        UsageError: the languages cannot stand in names of files; or a size is given of other
            subwords than are made.
    """
    for name, subwords in SIZES.items():
        size = getattr(options, name)
        if size != USUAL_SIZE and subwords != options.subwords:
            raise UsageError(
                f"--{name.replace('_', '-')} {size} is for --subwords {subwords}: give that, too, "
                "or leave it out"
            )
    sides = (options.source_lang, options.target_lang)
    for side, name in zip(("source", "target"), sides, strict=True):
        if not LANGUAGE.fullmatch(name):
            raise UsageError(
                f"--{side}-lang {name}: fairseq takes names of letters, digits and _, such as "
                f"{re.sub('[^A-Za-z0-9_]+', '_', name).strip('_') or 'fr'}"
            )
    if sides[0] == sides[1]:
        raise UsageError(f"--source-lang and --target-lang are both {sides[0]}: name one otherwise")
    subwords = None if options.subwords == "none" else options.subwords
    return {"sides": sides, "word_rule": SUBWORDS[options.subwords][0], "subwords": subwords}


def find_files(options):
    """The two files of each split that is not held out of the training set.

    Raises:
        UsageError: one is not there, or is something else.
    """
    return {"train": TwoFiles(*options.train)} | held_files(options, TwoFiles, 2, "two files")


def held_files(options, kind, number, others):
    """What gives the pairs of the splits that are not held out of the training set.

    Args:
        kind: makes that of files;
        number: of these.
        others: what to call them.

    Raises:
        UsageError: an option has another number of files, or holds out none.
    """
    found = {}
    for split in HELD_OUT:
        match getattr(options, split):
            case None:
                continue
            case [int(held)] if held > 0:
                continue
            case given if [isinstance(one, Path) for one in given] == [True] * number:
                found[split] = kind(*given)
            case given:
                told = " ".join(map(str, given))
                raise UsageError(
                    f"--{split} {told}: takes {others}, or how many pairs are held out, 1 or more"
                )
    return found


def division(options):
    """What the splits depend on, beside the files."""
    return {**{split: held_number(options, split) for split in HELD_OUT}, "seed": options.seed}


def held_number(options, split):
    """How many pairs are to be held out; None where files are given, or nothing."""
    match getattr(options, split):
        case [int(held)]:
            return held
    return None


def write_translations(files, folder, options):
    """Write ``{split}.{language}``, tokenised where they are cut by ``subword_nmt``.

    Raises:
        UsageError: as :func:`write_pairs`, or text that is not cut holds a special symbol.
    """
    languages = (options.source_lang, options.target_lang)
    if options.subwords == "none":
        for source in files.values():
            for number, pair in enumerate(source.pairs(), start=1):
                for path, line in zip(source.paths, pair, strict=True):
                    check_symbols(line, f"{path}:{number}", "--subwords sentencepiece")
    rule = SUBWORDS[options.subwords][0]
    functions = [RULES[rule](language) if rule in RULES else spaces for language in languages]
    write_pairs(files, folder, options, languages, functions)


def write_pairs(files, folder, options, sides, functions):
    """Write ``{split}.{side}``: the pairs of the files, and those that are held out.

    Pairs of which a side is empty, which nothing can be learned of, are left out and told.

    Args:
        files: as :func:`find_files` gives them.
        folder: of text.
        options: of the command line.
        sides: endings of the text files.
        functions: of each side, what makes words of a line.

    Raises:
        UsageError: files do not go together, or a split has no pair.
    """
    for split, pairs in divided(files, options).items():
        counts = {"empty": 0}

        def full(pairs, counts=counts):
            for pair in pairs:
                if all(side.strip() for side in pair):
                    yield pair
                else:
                    counts["empty"] += 1

        with PairWriter(folder / split, sides) as writer:
            given = full(islice(pairs(), options.limit))
            for pair in map_pairs(functions, given, options.jobs, f"reading {split}"):
                writer.write(pair)
        if counts["empty"]:
            say(f"{split}: left out {counts['empty']:,} pairs of which a side is empty")
        if not writer.count:
            raise UsageError(f"{files.get(split, files['train']).name}: has no pairs for {split}")


def divided(files, options):
    """Functions that give the pairs of each split."""
    given = {split: source.pairs for split, source in files.items()}
    if len(given) == len(SPLITS):
        return given
    found = [(None, identity(source)) for source, _ in given["train"]()]
    number = len(found)
    usual = max(1, min(MOST_HELD_OUT, number // 10))
    sizes = {s: held_number(options, s) or usual for s in HELD_OUT if s not in given}
    if sum(sizes.values()) >= number:
        raise UsageError(
            f"{files['train'].name}: {number:,} pairs are too few to hold out "
            + " and ".join(f"{size:,} for {split}" for split, size in sizes.items())
        )
    chosen = hold_out(found, options.seed, sizes, files["train"].name)
    split_of = {index: split for split, indices in chosen.items() for index in indices}

    def part(split):
        for index, pair in enumerate(given["train"]()):
            if split_of.get(index, "train") == split:
                yield pair

    return {**given, **{split: partial(part, split) for split in ("train", *chosen)}}


TRANSLATION = TranslationCorpus(
    name="own",
    summary="parallel files of your own, of any two languages",
    source=None,
    sides=(),
    word_rule="moses-escaped",
    published={},
    recipe=None,
    find_files=find_files,
    fingerprint=fingerprint,
    write_text=write_translations,
    settings=lambda options: {**division(options), "subwords": options.subwords},
    add_options=add_options,
    changes=changes,
    bpe_operations=USUAL_SIZE,
)
