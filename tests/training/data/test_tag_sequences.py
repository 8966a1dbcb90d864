import itertools

import pytest
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.tasks.sequence_tagging import best_tags, check_rows, forbidden_pairs

TAGS = ["B-A0", "B-A1", "I-A0", "I-A1", "O"]


def test_each_words_best_tag():
    scores = torch.tensor([[[0.0, 1, 0], [2, 0, 0]], [[0, 0, 3], [9, 9, 9]]])
    assert best_tags(scores, torch.tensor([2, 1])) == [[1, 0], [2]]


def test_forbidden_pairs_are_those_that_change_the_label():
    forbidden = forbidden_pairs(TAGS)
    pairs = {
        (before, after)
        for (i, before), (j, after) in itertools.product(enumerate(TAGS), repeat=2)
        if forbidden[i, j]
    }
    assert pairs == {
        ("B-A0", "I-A1"),
        ("I-A0", "I-A1"),
        ("B-A1", "I-A0"),
        ("I-A1", "I-A0"),
    }


def test_constrained_decoding_finds_the_best_allowed_sequence():
    """Against all sequences, one by one."""
    generator = torch.Generator().manual_seed(1)
    forbidden = forbidden_pairs(TAGS)
    for length in (1, 2, 4):
        scores = torch.randn(length, len(TAGS), generator=generator).log_softmax(-1)
        allowed = [
            path
            for path in itertools.product(range(len(TAGS)), repeat=length)
            if not any(forbidden[pair] for pair in itertools.pairwise(path))
        ]
        best = max(allowed, key=lambda path: sum(scores[i, tag] for i, tag in enumerate(path)))
        (found,) = best_tags(scores[None], torch.tensor([length]), forbidden)
        assert found == list(best)


def rows(*lists):
    return [torch.tensor([*row, 2]) for row in lists]


def test_rows_that_go_together_are_fine():
    check_rows("train", rows([9, 8]), rows([4, 5]), rows([6, 7]), marked=5, unknown=3)


WRONG = "row {}: needs a flag and a tag per word, and exactly one predicate"


@pytest.mark.parametrize(
    ("words", "flags", "tags", "message"),
    [
        (rows([9], [9]), rows([5]), rows([6]), WRONG.format(2)),
        (rows([9, 8]), rows([5]), rows([6, 7]), WRONG.format(1)),
        (rows([]), rows([]), rows([]), WRONG.format(1)),
        (rows([9, 8]), rows([5, 5]), rows([6, 7]), WRONG.format(1)),
        (rows([9, 8]), rows([4, 4]), rows([6, 7]), WRONG.format(1)),
        (rows([9, 8]), rows([4, 5]), rows([6, 3]), "row 1: has a tag that tags/dict.txt lacks"),
    ],
)
def test_malformed_rows_are_one_line(words, flags, tags, message):
    with pytest.raises(UsageError, match=message):
        check_rows("train", words, flags, tags, marked=5, unknown=3)
