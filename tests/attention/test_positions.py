import math

import pytest
import torch
from reference import leaves

from fairseq_posattn.attention.positions import (
    blocked_keys,
    relative_shift,
    relative_sinusoids,
    relative_unshift,
    signed_distances,
    toeplitz_matrix,
)


@pytest.mark.parametrize(
    ("lengths", "matrix"),
    [
        ((3, 3), [[0, -1, -2], [1, 0, -1], [2, 1, 0]]),
        ((1, 4), [[3, 2, 1, 0]]),  # queries are the last positions
        ((2, 3), [[1, 0, -1], [2, 1, 0]]),
    ],
)
def test_distances(lengths, matrix):
    assert toeplitz_matrix(signed_distances(*lengths), *lengths).tolist() == matrix


def test_blocked_keys():
    assert blocked_keys(3, 3) is None
    assert blocked_keys(1, 5, causal=True) is None
    assert blocked_keys(2, 3, causal=True).int().tolist() == [[[[0, 0, 1], [0, 0, 0]]]]
    padding = torch.tensor([[True, False, False]])
    blocked = blocked_keys(3, 3, padding, causal=True)
    assert blocked.int().tolist() == [[[[1, 1, 1], [1, 0, 1], [1, 0, 0]]]]


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 4), (1, 40), (2, 2), (2, 5), (5, 5)])
def test_scores_by_distance_are_shifted_to_their_keys(queries, keys):
    (rows,) = leaves((2, 3, queries, queries + keys - 1))
    shifted = relative_shift(rows)
    assert shifted.shape == (2, 3, queries, keys)
    for t in range(queries):
        for s in range(keys):
            distance = (t + keys - queries) - s
            assert torch.equal(shifted[..., t, s], rows[..., t, keys - 1 - distance])
    assert torch.equal(relative_shift(relative_unshift(shifted)), shifted)


@pytest.mark.parametrize("features", [1, 2, 5, 6])
def test_sinusoids_equal_their_formula(features):
    expected = [
        [
            (math.cos if feature % 2 else math.sin)(
                distance / 10000 ** ((feature - feature % 2) / features)
            )
            for feature in range(features)
        ]
        for distance in range(-2, 4)
    ]
    ours = relative_sinusoids(3, 4, features, dtype=torch.float64)
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_rounds_the_sinusoid_not_the_distance(dtype):
    ours = relative_sinusoids(1, 70_001, 4, dtype=dtype)
    exact = relative_sinusoids(1, 70_001, 4, dtype=torch.float64)
    assert ours.dtype == dtype
    assert (ours.double() - exact).abs().max() < 0.01
