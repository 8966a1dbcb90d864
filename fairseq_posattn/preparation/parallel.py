"""Pairs of lines: a text and its translation or summary."""

from contextlib import ExitStack
from itertools import chain, islice

from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import map_lines, say
from fairseq_posattn.preparation.report import counted
from fairseq_posattn.text.lines import one_line, parallel_lines, read_lines


def fingerprint(files):
    """Return a value that changes when the files do; see :meth:`.Stages.run`."""
    members = chain.from_iterable(chain.from_iterable(files.values()))
    return [archive.fingerprint(member) for archive, member in members]


def read_pairs(corpora, reader=read_lines):
    """Yield the pairs of corpora, each given as ``(archive, member)`` of each side."""
    for sides in corpora:
        with ExitStack() as stack:
            named = {}
            for archive, member in sides:
                name = archive.label(member)
                named[name] = reader(stack.enter_context(archive.open(member)), name)
            yield from parallel_lines(**named)


def write_tokenized(splits, tokenizers, folder, sides, options):
    """Tokenize and write ``{split: pairs}``, without ``tokenizers`` as they are."""
    for split, pairs in splits.items():
        chosen = islice(pairs, options.limit)
        if tokenizers:
            chosen = map_pairs(tokenizers, chosen, options.jobs, f"tokenizing {split}")
        write_pairs(chosen, folder / split, sides)


def map_pairs(functions, pairs, jobs, title):
    """Yield pairs whose sides are mapped by the function of each side."""
    first, second = functions
    return map_lines(lambda pair: (first(pair[0]), second(pair[1])), pairs, jobs, title)


def write_pairs(pairs, prefix, sides, only_complete=False):
    """Write the pairs to ``{prefix}.{side}``, perhaps without those with an empty side."""
    empty = 0
    with PairWriter(prefix, sides) as writer:
        for pair in pairs:
            if only_complete and not all(pair):
                empty += 1
            else:
                writer.write(pair)
    say_left_out(prefix.name, empty, writer.count)


def say_left_out(split, empty, written):
    """Print how many pairs of a split, and which share, have an empty side."""
    if empty:
        share = f"{empty / (empty + written):.1%}"
        say(f"{split}: left out {counted(empty, 'pair')} with an empty side ({share})")


class PairWriter(ExitStack):
    """Writer of pairs of lines to ``{prefix}.{side}``; counts them."""

    def __init__(self, prefix, sides):
        super().__init__()
        self.files = [self.enter_context(writing(f"{prefix}.{side}")) for side in sides]
        self.count = 0

    def write(self, pair):
        for file, line in zip(self.files, pair, strict=True):
            file.write(f"{one_line(line)}\n")
        self.count += 1
