"""Tags of words: which a model prefers, and whether a split's rows can be used."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fairseq_posattn.common.errors import UsageError

IGNORED = -1  # the target where a sentence is padded


def best_tags(scores: Tensor, lengths: Tensor, forbidden: Tensor | None = None) -> list[list[int]]:
    """The tags that are best for each word or, where some may not follow others, together.

    Args:
        scores: log-probabilities ``[B, T, K]``, padded on the right.
        lengths: words of each sentence, ``[B]``.
        forbidden: bool ``[K, K]``, True where the second tag may not follow the first; then the
            sequence of greatest probability without such a pair is found (Viterbi).

    Returns:
        for each sentence its tags' numbers.
    """
    if forbidden is None:
        best = scores.argmax(-1)
        return [row[:length] for row, length in zip(best.tolist(), lengths.tolist(), strict=True)]
    return [
        _best_path(row[:length].float(), forbidden)
        for row, length in zip(scores, lengths.tolist(), strict=True)
    ]


def _best_path(scores: Tensor, forbidden: Tensor) -> list[int]:
    """Of one sentence, ``[T, K]``."""
    penalty = torch.zeros_like(forbidden, dtype=scores.dtype).masked_fill(forbidden, -torch.inf)
    best, came_from = scores[0], []
    for step in scores[1:]:
        best, previous = (best[:, None] + penalty).max(0)
        best = best + step
        came_from.append(previous)
    path = [int(best.argmax())]
    for previous in reversed(came_from):
        path.append(int(previous[path[-1]]))
    return path[::-1]


def forbidden_pairs(tags: Sequence[str]) -> Tensor:
    """Where ``I-Y`` would go on with a piece of another label: bool ``[K, K]``, [before, after]."""
    labels = [tag[2:] if tag[:2] in ("B-", "I-") else None for tag in tags]
    return torch.tensor(
        [
            [after.startswith("I-") and label is not None and label != after[2:] for after in tags]
            for label in labels
        ]
    )


def check_rows(split: str, words, flags, tags, marked: int, unknown: int):
    """Check that a split's three columns go together, row by row.

    Args:
        words, flags, tags: data sets of token numbers, each row ending with ``</s>``.
        marked: the number of the flag that stands at the predicate.
        unknown: the number of a tag that its dictionary lacks.

    Raises:
        UsageError: a row has unequal lengths, no words, not just one predicate, or a tag that the
            dictionary lacks.
    """
    if not len(words) == len(flags) == len(tags):
        raise UsageError(
            f"{split} has {len(words)} rows of words, {len(flags)} of predicate and {len(tags)} of "
            "tags: prepare the data again"
        )
    for row in range(len(words)):
        place = f"{split}, row {row + 1}"
        lengths = [len(column[row]) - 1 for column in (words, flags, tags)]
        if len(set(lengths)) > 1 or lengths[0] == 0:
            raise UsageError(
                f"{place}: {lengths[0]} words, {lengths[1]} flags and {lengths[2]} tags; there "
                "must be one of each for every word, and a word"
            )
        if (flags[row] == marked).sum() != 1:
            raise UsageError(f"{place}: just one word must be the predicate")
        if (tags[row] == unknown).any():
            raise UsageError(f"{place}: a tag that tags/dict.txt lacks: prepare the data again")
