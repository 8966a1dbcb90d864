"""Output at the end of a preparation: tables of the examples, and the commands that follow."""

import math
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import median
from textwrap import indent
from typing import Any

from fairseq_posattn.common.errors import counted
from fairseq_posattn.common.files import StrPath
from fairseq_posattn.common.progress import python_environment, say
from fairseq_posattn.preparation.like import Template

MOST_LABELS = 30  # lines of the table of classes


def count_lines(path: Path) -> int:
    """Return the number of lines of a file."""
    with open(path, "rb") as file:
        return sum(1 for _ in file)


def report_counts(
    counts: Mapping[str, int],
    published: Mapping[str, int | str],
    limit: int | None = None,
    what: str = "lines",
) -> None:
    """Print the counts of the splits; warn where published counts differ, unless of a part."""
    width, warnings = max(map(len, ["split", *counts])), []
    print(f"{'split':<{width}} {what:>12} {'published':>12}")
    for split, count in counts.items():
        known = published.get(split, "-")
        if not isinstance(known, str):
            if known != count:
                warnings.append(f"{split} has {count:,} {what}, not the {known:,} published")
            known = f"{known:,}"
        print(f"{split:<{width}} {count:>12,} {known:>12}")
    if limit is not None:
        print(f"(a quick look: --limit {limit})")
        return
    for warning in warnings:
        say(f"warning: {warning}: scores cannot be compared with published ones")


def report_splits(
    splits: Mapping[str, Iterable[tuple[str, ...]]],
    sides: Sequence[str],
    key: Callable[[tuple[str, ...]], Hashable] = lambda texts: texts,
    most: float = math.inf,
) -> None:
    """Print size and lengths of each split, and warn of examples that an earlier one has, too.

    ``splits`` maps names, ``train`` first, to examples: tuples of tokenized texts, called
    ``sides``, and perhaps more. ``key`` maps an example to what makes two examples equal. fairseq
    trains on texts of at most ``most`` tokens.
    """
    columns = "  ".join(f"{side}: median, longest" for side in sides)
    print(f"{'split':<6} {'examples':>10} {'repeated':>10} {'in train':>10}   {columns}")
    earlier: dict[str, set[int]] = {}
    warnings: list[str] = []
    for split, examples in splits.items():
        counts, shared, long = [Counter[int]() for _ in sides], Counter[str](), 0
        known: set[int] = set()
        for texts in examples:
            lengths = [len(text.split()) for text in texts[: len(sides)]]
            for count, length in zip(counts, lengths, strict=True):
                count[length] += 1
            long += max(lengths[:1] if split == "test" else lengths) > most
            example = hash(key(texts))
            known.add(example)
            shared.update(other for other, keys in earlier.items() if example in keys)
        number = counts[0].total()
        each = [f"{median(count.elements()):g}, {max(count):,}" for count in counts]
        cells = (f"{cell:>{len(side) + 17}}" for side, cell in zip(sides, each, strict=True))
        columns = "  ".join(cells)
        in_train = "-" if split == "train" else f"{shared['train']:,}"
        print(f"{split:<6} {number:>10,} {number - len(known):>10,} {in_train:>10}   {columns}")
        if long:
            share = f"{counted(long, 'example')} of {number:,} ({long / number:.1%})"
            what = "training leaves them out, and names the flags that keep them"
            what = "generation cuts them" if split == "test" else what
            warnings.append(f"warning: {split}: {share} have more than {most:,} tokens: {what}")
        for other, overlap in shared.items():
            part = f"{overlap:,} of the {counted(number, 'example')} of {split} are in {other}"
            warnings.append(f"warning: {part}, too: its scores will be too good")
        earlier[split] = known
    for warning in warnings:
        say(warning)


def report_labels(labels: Mapping[str, Iterable[str]]) -> None:
    """Print how often each class occurs in each split; ``labels``: ``{split: classes}``."""
    counts = {split: Counter(names) for split, names in labels.items()}
    names = sorted({*chain(*counts.values())}, key=lambda name: (-counts["train"][name], name))
    width = max(len("label"), *map(len, names[:MOST_LABELS]))
    print(f"{'label':<{width}}" + "".join(f" {split:>18}" for split in counts))
    for name in names[:MOST_LABELS]:
        shares = (f"{each[name]:,} ({each[name] / each.total():.1%})" for each in counts.values())
        print(f"{name:<{width}}" + "".join(f" {share:>18}" for share in shares))
    if len(names) > MOST_LABELS:
        print(f"(and {len(names) - MOST_LABELS:,} more)")


def next_commands(
    corpus: Any,
    dest: Path,
    folder: Path | None = None,
    extra: Sequence[str] = (),
    template: Template | None = None,
) -> list[str]:
    """Print the commands that train, from the template's model; return the first's words."""
    train = ["posattn", "train", shown(folder or dest)]
    train += ["--from", shown(template.start)] if template and template.start else []
    train += ["--", *extra] if extra else []
    print(f"next:\n    {shlex.join(train)}")
    data = ["--data", shown(dest)]
    if not corpus.sides:  # its recipe finds data sets by their folders' names
        data = ["--datasets", corpus.name, "--data", shown(dest.parent)]
    if corpus.recipe and (corpus.sides or dest.name == corpus.name):
        words = ["posattn", "recipe", corpus.recipe, *data]
        print(f"or, for the paper's table,\n    {shlex.join(words)}")
    return train


def explain(train: Sequence[str]) -> None:
    """Print the fairseq-train command of ``posattn train``, given as words, on this machine."""
    words = [sys.executable, "-m", "fairseq_posattn.cli", "train", "--dry-run", *train[2:]]
    decoding: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}  # as of names
    result = subprocess.run(words, env=python_environment(), stdout=subprocess.PIPE, **decoding)
    if result.returncode == 0:
        print(f"posattn train stands for\n{indent(result.stdout.rstrip(), '    ')}")


def shown(path: StrPath) -> str:
    """Return a path for a printed command, relative to the current folder if it lies in it."""
    path = Path(path)
    path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"./{path}" if str(path).startswith("-") else str(path)
