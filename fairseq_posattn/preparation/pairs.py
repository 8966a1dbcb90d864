"""Pairs of lines, of a text and its translation or summary, from archives to text files."""

from contextlib import ExitStack
from itertools import chain

from fairseq_posattn.common.files import writing
from fairseq_posattn.common.parallel import map_lines
from fairseq_posattn.preparation.binarise import binarise_pairs
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.text.lines import one_line, parallel_lines, read_lines


def named_files(corpus, options):
    """The files that the user named; None where they are to be downloaded."""
    return corpus.find_files(options) if options.source or corpus.source is None else None


def run_text(corpus, stages, options, given):
    """The stage that writes the text of all splits of a :class:`.corpus.PairCorpus`.

    Args:
        given: the published files, if the user named them.
    """
    stages.run(
        "text",
        text_files(corpus.sides, splits=corpus.splits(options)),
        lambda work: corpus.write_text(given or corpus.find_files(options), work / "text", options),
        source=given and corpus.fingerprint(given),
        **corpus.settings(options),
    )


def run_binarising(stages, sides, prefixes, jobs, flags, **settings):
    """The stage that makes what fairseq-train reads.

    Args:
        prefixes: of the text files, without ``.{side}``, by split.
        flags: called with the stage's folder, gives flags of fairseq-preprocess.
        settings: all that the data depends on beside the text.
    """
    pair = "-".join(sides)
    outputs = [f"dict.{side}.txt" for side in sides]
    outputs += [
        f"{split}.{pair}.{side}.{kind}"
        for split in prefixes
        for side in sides
        for kind in ("bin", "idx")
    ]

    def make(work):
        binarise_pairs(*sides, prefixes, work, jobs, **flags(work))

    stages.run("binarising", outputs, make, **settings)


def fingerprint(files):
    """What tells these files from others, for :meth:`Stages.run`."""
    members = chain.from_iterable(chain.from_iterable(files.values()))
    return [archive.fingerprint(member) for archive, member in members]


def text_files(sides, prefix="", splits=SPLITS):
    """``text/{split}.{side}``, relative to the destination."""
    return [f"text/{prefix}{split}.{side}" for split in splits for side in sides]


def read_pairs(corpora, reader=read_lines):
    """The pairs of all corpora of a split, one after the other.

    Args:
        corpora: of each, the archive and its member in each language.
        reader: called with a stream and its name, gives sentences.
    """
    for sides in corpora:
        with ExitStack() as stack:
            named = {}
            for archive, member in sides:
                name = archive.label(member)
                named[name] = reader(stack.enter_context(archive.open(member)), name)
            yield from parallel_lines(**named)


def map_pairs(functions, pairs, jobs, title):
    """Each side of each pair, by the function of its language."""

    def apply(pair):
        return tuple(function(line) for function, line in zip(functions, pair, strict=True))

    return map_lines(apply, pairs, jobs, title)


def write_pairs(pairs, prefix, languages):
    """Write pairs of lines to ``{prefix}.{language}``."""
    with PairWriter(prefix, languages) as writer:
        for pair in pairs:
            writer.write(pair)


class PairWriter(ExitStack):
    """Writes pairs of lines to ``{prefix}.{language}`` for each language, and counts them."""

    def __init__(self, prefix, languages):
        super().__init__()
        self.files = [self.enter_context(writing(f"{prefix}.{language}")) for language in languages]
        self.count = 0

    def write(self, pair):
        for file, line in zip(self.files, pair, strict=True):
            file.write(f"{one_line(line)}\n")
        self.count += 1


def text_lines(path):
    """The lines of a text file that was made here."""
    with open(path, "rb") as stream:
        yield from read_lines(stream, path)
