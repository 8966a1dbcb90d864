"""Pre-trained GloVe vectors (Pennington et al., 2014), cut to the words of a dictionary.

The published files have no header line, and some words of the larger ones hold spaces: a line is
its last numbers, and whatever stands before them.
"""

import random
import re
from math import isfinite
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import Progress, say
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.download import Source, fetch
from fairseq_posattn.preparation.example import shortened
from fairseq_posattn.text.lines import raw_lines
from fairseq_posattn.text.vocabulary import choose_words, write_dictionary

UNKNOWN = "<unk>"
UNKNOWN_RANGE = 0.05  # MPSAN and MTSA: words without a vector are uniform in +-0.05
DEFAULT_DIM = 300
STANFORD = (
    "https://nlp.stanford.edu/data/{}",
    "https://downloads.cs.stanford.edu/nlp/data/{}",
    "https://huggingface.co/stanfordnlp/{stem}/resolve/main/{}",
)
PUBLISHED = {
    "6B": ("glove.6B.zip", (50, 100, 200, 300)),
    "42B": ("glove.42B.300d.zip", (300,)),
    "840B": ("glove.840B.300d.zip", (300,)),
    "twitter.27B": ("glove.twitter.27B.zip", (25, 50, 100, 200)),
}
NAMES = [f"{corpus}.{dim}d" for corpus, (_, dims) in PUBLISHED.items() for dim in dims]


def find_vectors(given, folder, dim=DEFAULT_DIM):
    """``(archive, member)`` of the vectors that a user asks for.

    Args:
        given: a file, zip or folder; or a name such as ``6B.300d``, to download.
        folder: where downloads go.
        dim: which file to take, if an archive holds several.

    Raises:
        UsageError: there are none.
    """
    if not Path(given).exists() and given in NAMES:
        corpus, _, width = given.rpartition(".")
        name, dim = PUBLISHED[corpus][0], int(width.removesuffix("d"))
        archive = open_archive(fetch(_source(name), folder))
    elif not Path(given).exists():
        raise UsageError(
            f"--glove {given}: no such file, and none of {', '.join(NAMES)} to download"
        )
    else:
        archive = open_archive(given)
    members = [name for name in archive.names() if name.endswith(".txt")] or archive.names()
    if len(members) > 1:
        members = [name for name in members if f".{dim}d." in name]
    if len(members) != 1:
        raise UsageError(
            f"{given}: holds {len(members)} files of {dim}-dimensional vectors, not one; "
            "choose with --glove-dim"
        )
    return archive, members[0]


def read_vectors(archive, member, wanted):
    """The vectors of the words that are wanted.

    Args:
        wanted: a set of words.

    Returns:
        ``({word: its numbers, as they are written}, dimensions)``; the first of those of a word.

    Raises:
        UsageError: a line does not have as many numbers as the first one.
    """
    wanted = {word.encode(): word for word in wanted}
    found, dim, name = {}, None, archive.label(member)
    with (
        archive.open(member) as stream,
        Progress(f"reading {member}", "vectors") as progress,
    ):
        for number, line in enumerate(raw_lines(stream, name), start=1):
            line = line.rstrip(b"\r\n")
            if dim is None:
                dim = line.count(b" ")
            if line.count(b" ") != dim:
                _check_width(line, dim, f"{name}:{number}")
            else:
                word, _, numbers = line.partition(b" ")
                if word in wanted:
                    text = _checked(numbers, f"{name}:{number}")
                    found.setdefault(wanted.pop(word), text)
            if number % 10_000 == 0:
                progress.add(10_000)
        if not dim:
            raise UsageError(f"{name}: no vectors")
        progress.add(number % 10_000)
    return found, dim


def write_embeddings(path, words, vectors, dim, seed):
    """Write a vector for each word in fairseq's format, made up where there is none.

    The row of ``<unk>`` comes first: the one vector of all words that are not in the dictionary. It
    is the file's own, which some have, or zero, as in the published code of MTSA and DiSAN.
    """
    generator = random.Random(seed)
    with writing(path) as file:
        file.write(f"{len(words) + 1} {dim}\n")
        file.write(f"{UNKNOWN} {vectors.get(UNKNOWN) or ' '.join(['0'] * dim)}\n")
        for word in words:
            file.write(f"{word} {vectors.get(word) or _made_up(generator, dim)}\n")


def write_vocabulary(folder, training, others, vectors, min_count, seed):
    """Write ``dict.txt`` and, if there are vectors, ``glove.txt``, and say how many words have one.

    Args:
        training, others: counts of the words of training and of the other splits.
        vectors: as :func:`find_vectors` gives them, or None.
        min_count: how often a word without a vector must occur in training.
    """
    wanted = {UNKNOWN, *training, *others}
    known, dim = read_vectors(*vectors, wanted) if vectors else ({}, 0)
    words = choose_words(training, others, known, min_count)
    write_dictionary(folder / "dict.txt", words)
    if vectors:
        write_embeddings(folder / "glove.txt", words, known, dim, seed)
        types, of_types, tokens, of_tokens = coverage(training, known)
        say(
            f"vectors of {dim} dimensions: for {types:,} of {of_types:,} words in training "
            f"({types / of_types:.1%}), which are {tokens / of_tokens:.1%} of its running words; "
            f"for {len(words.keys() - training.keys()):,} words that are in validation or test only"
        )


def coverage(counts, vectors):
    """``(types with a vector, types, tokens with a vector, tokens)`` of counted words."""
    known = [count for word, count in counts.items() if word in vectors]
    return len(known), len(counts), sum(known), sum(counts.values())


def _check_width(line, dim, place):
    """A word may hold spaces; a number too many or too few is an error."""
    numbers = line.split(b" ")[-dim:]
    word = line.split(b" ")[:-dim]
    if len(numbers) < dim or not word or not all(map(_is_number, numbers)) or _is_number(word[-1]):
        raise UsageError(f"{place}: {line.count(b' ')} numbers where the first line has {dim}")


def _checked(numbers, place):
    text = numbers.decode("ascii", "replace")
    wrong = next((part for part in text.split(" ") if not _is_number(part)), None)
    if wrong is not None:
        raise UsageError(f"{place}: {shortened(wrong)} is not a number")
    return text


def _is_number(text):
    try:
        return isfinite(float(text))
    except ValueError:
        return False


def _made_up(generator, dim):
    return " ".join(f"{generator.uniform(-UNKNOWN_RANGE, UNKNOWN_RANGE):.6f}" for _ in range(dim))


def _source(name):
    stem = re.sub(r"\.zip$", "", name)
    return Source(name, tuple(url.format(name, stem=stem) for url in STANFORD))
