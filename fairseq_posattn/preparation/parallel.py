"""Parallel text: pairs of lines, a text and its translation or summary."""

from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

from fairseq_posattn.common.errors import counted
from fairseq_posattn.common.files import writing
from fairseq_posattn.common.progress import map_lines, say
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.text.lines import one_line, parallel_lines, read_lines
from fairseq_posattn.text.moses import RULES

Pair = Sequence[str]
Rule = Callable[[str], str]


def read_pairs(
    archive: Archive,
    files: Iterable[Sequence[str]],
    reader: Callable[[IO[bytes], str], Iterator[str]] = read_lines,
) -> Iterator[tuple[str, ...]]:
    """Yield the lines of parallel files; ``files`` are the members of each part, side by side."""
    for members in files:
        sides = {archive.label(member): archive.lines(member, reader) for member in members}
        yield from parallel_lines(**sides)


def write_text(
    readers: Mapping[str, Callable[[], Iterator[Any]]],
    folder: Path,
    corpus: Any,
    options: Namespace,
) -> None:
    """Write ``{split}.{side}`` of the pairs that ``readers`` yield, tokenized by the corpus."""
    for split, read in readers.items():
        pairs: Iterable[Pair] = islice(read(), options.limit)
        if rules := tokenizers(corpus, split):
            pairs = map_pairs(rules, pairs, options.jobs, f"tokenizing {split}")
        write_pairs(pairs, folder / split, corpus.sides, only_complete=split in corpus.complete)


def tokenizers(corpus: Any, split: str) -> list[Rule]:
    """Return the tokenizer of each side by the corpus's rule; none if its text has tokens."""
    if corpus.tokenized or corpus.word_rule not in RULES:
        return []
    options = {"normalize": True} if split in corpus.normalized else {}
    rules = [RULES[corpus.word_rule](side, **options) for side in corpus.sides]
    return [partial(_lowered, rule) for rule in rules] if corpus.lower else [*rules]


def _lowered(rule: Rule, line: str) -> str:
    return rule(line).lower()  # after it: Moses' abbreviations have capitals


def map_pairs(
    functions: Sequence[Rule], pairs: Iterable[Pair], jobs: int, title: str
) -> Iterator[Pair]:
    """Yield pairs whose sides are mapped by the function of each side."""
    first, second = functions
    return map_lines(lambda pair: (first(pair[0]), second(pair[1])), pairs, jobs, title)


def write_pairs(
    pairs: Iterable[Pair], prefix: Path, sides: Sequence[str], only_complete: bool = False
) -> None:
    """Write the pairs to ``{prefix}.{side}``, perhaps without those with an empty side."""
    empty = 0
    with LineWriter(prefix, sides) as writer:
        for pair in pairs:
            if only_complete and not all(pair):
                empty += 1
            else:
                writer.write(pair)
    say_left_out(prefix.name, empty, writer.count)


def say_left_out(split: str, empty: int, written: int) -> None:
    """Print how many pairs of a split, and which share, have an empty side."""
    if empty:
        share = f"{empty / (empty + written):.1%}"
        say(f"{split}: left out {counted(empty, 'pair')} with an empty side ({share})")


class LineWriter(ExitStack):
    """Writer of a line each to the files ``{prefix}.{suffix}``, such as pairs; counts them."""

    def __init__(self, prefix: Path, suffixes: Sequence[str]) -> None:
        super().__init__()
        self.files = [self.enter_context(writing(f"{prefix}.{suffix}")) for suffix in suffixes]
        self.count = 0

    def write(self, lines: Sequence[str]) -> None:
        for file, line in zip(self.files, lines, strict=True):
            file.write(f"{one_line(line)}\n")
        self.count += 1
