"""Held-out examples: seeded samples with the same share of each class."""

import random
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.preparation.corpus import FOLDS
from fairseq_posattn.preparation.vectors import fraction
from fairseq_posattn.text.plain_text import INVISIBLE

HELD_OUT = ("test", "valid")


def file_or_size(text: str) -> Path | int | float:
    """Return the file, number or share of examples that ``--valid`` or ``--test`` names."""
    if text.isdecimal() and int(text):
        return int(text)
    return fraction(text) if re.fullmatch(r"\d*\.?\d+", text) else Path(text)


def held_out_size(size: int | float, number: int) -> int:
    """Return how many of ``number`` examples a number or share is, at least one."""
    return max(1, size if isinstance(size, int) else round(number * size))


def identity(*texts: str) -> int:
    """Return a hash that ignores spaces, control characters, case and Unicode form."""
    forms = (unicodedata.normalize("NFKC", text).casefold() for text in texts)
    return hash(tuple(INVISIBLE.sub("", text) for text in forms))


def hold_out(
    examples: Sequence[tuple[str | None, Hashable]],
    seed: int,
    sizes: Mapping[str, int],
    name: object,
) -> dict[str, set[int]]:
    """Return the indices of held-out examples by split, with the same share of each class.

    Splits are disjoint in their texts: repeated texts stay in training or, where the others do not
    suffice, move with all their examples. An example of each class stays in training. ``examples``
    are pairs of a class or None and :func:`identity`; ``name`` is the file's, for messages.
    """
    if sum(sizes.values()) >= len(examples):
        needed = " and ".join(f"{size:,} for {split}" for split, size in sizes.items())
        few = f"has {counted(len(examples), 'example')}, too few to hold out {needed}"
        raise UsageError(f"{name}: {few}")
    labels = [label for label, _ in examples]
    by_text: defaultdict[Hashable, list[int]] = defaultdict(list)
    for index, (_, text) in enumerate(examples):
        by_text[text].append(index)
    free = [indices for indices in by_text.values() if len(indices) == 1]
    if len(free) < max(1, sum(sizes.values())):
        free = list(by_text.values())
    share = len(free) / sum(map(len, free))  # texts per example
    chosen, trained = {}, Counter(labels)
    for split, size in sizes.items():
        firsts = [labels[indices[0]] for indices in free]
        sample = stratified_sample(firsts, seed, max(1, round(size * share)))
        chosen[split] = [free[number] for number in sample]
        free = [indices for number, indices in enumerate(free) if number not in sample]
        trained.subtract(labels[index] for indices in chosen[split] for index in indices)
    held = {}
    for split, texts in chosen.items():
        kept = (text for text in texts if all(trained[labels[index]] > 0 for index in text))
        held[split] = {index for text in kept for index in text}
        if not held[split]:
            raise UsageError(
                f"{name}: too few different texts to hold some out for {split}; "
                f"give more, or --{split} FILE"
            )
    return held


def divided(
    read: Callable[[], Iterator[Any]],
    examples: Sequence[tuple[str | None, Hashable]],
    seed: int,
    sizes: Mapping[str, int],
    name: object,
) -> dict[str, Callable[[], Iterator[Any]]]:
    """Return readers of training and of the held-out splits, by :func:`hold_out`, of ``read``."""
    chosen = hold_out(examples, seed, sizes, name)
    split_of = {index: split for split, indices in chosen.items() for index in indices}

    def part(split: str) -> Iterator[Any]:
        return (item for index, item in enumerate(read()) if split_of.get(index, "train") == split)

    return {split: partial(part, split) for split in ("train", *chosen)}


def cross_validation(
    labels: Sequence[str | None], seed: int, valid_fraction: float
) -> Iterator[dict[str, set[int]]]:
    """Yield the indices for ``valid`` and ``test`` of each fold; the others are for training."""
    order = stratified_order(labels, seed)
    for fold in range(FOLDS):
        test = set(order[fold::FOLDS])
        rest = [index for index in range(len(labels)) if index not in test]
        size = held_out_size(valid_fraction, len(rest))
        chosen = stratified_sample([labels[index] for index in rest], seed, size)
        yield {"valid": {rest[i] for i in chosen}, "test": test}


def stratified_sample(labels: Sequence[str | None], seed: int, count: int) -> set[int]:
    """Return the indices of ``count`` examples, or of all if there are fewer."""
    order = stratified_order(labels, seed)
    count = min(count, len(order))
    return {order[(2 * i + 1) * len(order) // (2 * count)] for i in range(count)}


def stratified_order(labels: Sequence[str | None], seed: int) -> list[int]:
    """Return indices by class, shuffled within, so that even distances give each its share."""
    by_class: defaultdict[str | None, list[int]] = defaultdict(list)
    generator = random.Random(seed)
    for index, label in enumerate(labels):
        by_class[label].append(index)
    for label in sorted(by_class, key=str):
        generator.shuffle(by_class[label])
    return [index for label in sorted(by_class, key=str) for index in by_class[label]]
