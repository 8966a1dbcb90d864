"""GloVe vectors (Pennington et al., 2014), their options, and the dictionaries that use them.

GloVe's files have no header line, fastText's and word2vec's have one. Some words of larger files
contain spaces: a line is its last numbers, and all before them is the word.
"""

import random
import re
from argparse import ArgumentParser, ArgumentTypeError
from codecs import BOM_UTF8
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from fairseq_posattn.common.cli import add_count, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json, writing
from fairseq_posattn.common.progress import Progress, say
from fairseq_posattn.preparation.archives import Archive, open_archive
from fairseq_posattn.preparation.download import FILES, TABLES, fetch
from fairseq_posattn.text.lines import raw_lines
from fairseq_posattn.text.vocabulary import COVERAGE, VECTORS, choose_words, write_dictionary

UNKNOWN = "<unk>"
UNKNOWN_RANGE = 0.05  # MPSAN and MTSA: words without a vector are uniform in +-0.05
DEFAULT_DIM = 300
GLOVE = TABLES["glove"].items()
PUBLISHED = {f"{name}.{dim}d": (file, dim) for name, (file, *dims) in GLOVE for dim in dims}

HEADER = re.compile(rb"\d+ (\d+)")  # number of words, and dimensions
Vectors = tuple[Archive, str]  # archive and member
Counts = Mapping[str, int]


def add_seed(parser: ArgumentParser) -> None:
    seed = "seed of held-out examples, folds and random vectors (default: %(default)s)"
    parser.add_argument("--seed", type=int, metavar="N", default=1, help=seed)


def add_word_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("words")
    group.add_argument(
        "--glove",
        metavar="VECTORS",
        help="pre-trained vectors: a text file of GloVe, word2vec or fastText, a zip or folder of "
        f"such files, or a name to download: {', '.join(PUBLISHED)}. Writes glove.txt to --dest, "
        "for --encoder-embed-path: a vector for each word of the dictionary, uniform in +-0.05 if "
        "there is none. Words of validation and test with a vector join the dictionary",
    )
    several = "dimensions to use if --glove holds several files"
    add_count(group, "--glove-dim", DEFAULT_DIM, several)
    least = (
        "training occurrences that a word without a vector needs for the dictionary (default: 1; 5 "
        "for the Yelp and Yahoo sets)"
    )
    group.add_argument("--min-count", type=positive, metavar="N", help=least)
    cased = "keep case, for vectors such as GloVe 840B (default: lowercase, for 6B)"
    group.add_argument("--cased", action="store_true", help=cased)
    add_seed(parser)


def fraction(text: str) -> float:
    """Return the number in (0, 0.5] that an option's value holds."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 0.5:
        raise ArgumentTypeError(f"{text!r} is not above 0 and at most 0.5")
    return value


def find_vectors(glove: str | None, folder: Path, dim: int | None = DEFAULT_DIM) -> Vectors | None:
    """Return archive and member of the vectors of ``--glove``, a file or a name to download."""
    if glove is None:
        return None
    if Path(glove).exists():
        archive = open_archive(glove)
    elif glove in PUBLISHED:
        name, dim = PUBLISHED[glove]
        archive = open_archive(fetch(FILES[name], folder))
    else:
        names = ", ".join(PUBLISHED)
        raise UsageError(f"--glove {glove}: no such file, and none of {names} to download")
    members = [name for name in archive.names if name.endswith(".txt")] or archive.names
    if len(members) > 1:
        members = [name for name in members if f".{dim}d." in name]
    if len(members) != 1:
        raise UsageError(
            f"{glove}: holds {len(members)} files of {dim}-dimensional vectors, not one; "
            "choose with --glove-dim, or name the unpacked file"
        )
    return archive, members[0]


def read_vectors(
    archive: Archive, member: str, words: Collection[str]
) -> tuple[dict[str, str], int]:
    """Return ``({word: its numbers as written}, dimensions)``; a word's first vector counts."""
    wanted = {word.encode(): word for word in words}
    known: dict[str, str] = {}
    dim, name = 0, archive.label(member)
    with archive.open(member) as stream, Progress(f"reading {member}", "vectors") as progress:
        for number, line in enumerate(raw_lines(stream, name), start=1):
            line = line.rstrip(b" \r\n").removeprefix(BOM_UTF8 if number == 1 else b"")
            if number == 1 and (header := HEADER.fullmatch(line)):
                dim = int(header[1])
                continue
            word, _, numbers = line.partition(b" ")
            width = line.count(b" ")
            dim = dim or width
            if width < dim:
                raise UsageError(f"{name}:{number}: {width} numbers; by the first line {dim}")
            if width == dim and word in wanted:  # some words hold spaces; they are not wanted
                known[wanted.pop(word)] = numbers.decode("ascii", "replace")
            if number % 10_000 == 0:
                progress.add(10_000)
        if not dim:
            raise UsageError(f"{name}: no vectors")
        progress.add(number % 10_000)
    if not known:
        fix = "take those of its language, a word a line with a space before each number"
        raise UsageError(f"{name}: has a vector for none of the data's words; {fix}")
    return known, dim


def write_embeddings(
    path: Path, words: Collection[str], vectors: Mapping[str, str], dim: int, seed: int
) -> None:
    """Write words' vectors, random if there is none; ``<unk>``'s is zero, as MTSA's and DiSAN's."""
    draw = partial(random.Random(seed).uniform, -UNKNOWN_RANGE, UNKNOWN_RANGE)
    with writing(path) as file:
        file.write(f"{len(words) + 1} {dim}\n")
        file.write(f"{UNKNOWN} {vectors.get(UNKNOWN) or ' '.join(['0'] * dim)}\n")
        for word in words:
            vector = vectors.get(word) or " ".join(f"{draw():.6f}" for _ in range(dim))
            file.write(f"{word} {vector}\n")


def write_vocabulary(
    folder: Path, training: Counts, others: Counts, vectors: Vectors | None, least: int, seed: int
) -> None:
    """Write ``dict.txt`` and, with vectors, ``glove.txt``; print their coverage."""
    known, dim = read_vectors(*vectors, {UNKNOWN, *training, *others}) if vectors else ({}, 0)
    words = choose_words(training, others, known, least)
    write_dictionary(folder / "dict.txt", words)
    if vectors:
        write_embeddings(folder / VECTORS, words, known, dim, seed)
        covered = [count for word, count in training.items() if word in known]
        share = sum(covered) / sum(training.values())
        write_json(folder / COVERAGE, {"running words": round(share, 4)})
        say(
            f"vectors of {dim} dimensions: for {len(covered):,} of {len(training):,} words in "
            f"training ({len(covered) / len(training):.1%}), which are "
            f"{share:.1%} of its running words; "
            f"for {len(words.keys() - training.keys()):,} words that are in validation or test only"
        )


def features(folder: Path) -> int | None:
    """Return the dimensions of the vectors in ``glove.txt`` of a folder; None without the file."""
    if not (folder / VECTORS).exists():
        return None
    with open(folder / VECTORS, encoding="utf-8") as file:
        return int(file.readline().split()[1])
