import pytest
import torch
from reference import leaves

from fairseq_posattn.attention.relative_shift import relative_shift, relative_unshift


def test_shift_by_hand():
    """Three queries and three keys; entries are for the distances 2, 1, 0, -1, -2."""
    rows = torch.tensor([[2, 1, 0, -1, -2]]).repeat(3, 1)
    assert relative_shift(rows).tolist() == [[0, -1, -2], [1, 0, -1], [2, 1, 0]]


def test_unshift_by_hand():
    columns = torch.tensor([[1, 2, 3], [4, 5, 6]])  # two queries, the last of three positions
    assert relative_unshift(columns).tolist() == [[0, 1, 2, 3], [4, 5, 6, 0]]


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 4), (2, 2), (2, 5), (5, 5)])
def test_every_query_finds_each_key_at_its_distance(queries, keys):
    (rows,) = leaves((2, 3, queries, queries + keys - 1))
    shifted = relative_shift(rows)
    assert shifted.shape == (2, 3, queries, keys)
    for t in range(queries):
        for s in range(keys):
            distance = (t + keys - queries) - s
            assert torch.equal(shifted[..., t, s], rows[..., t, keys - 1 - distance])
    assert torch.equal(relative_shift(relative_unshift(shifted)), shifted)


def test_each_passes_gradients_as_the_other_does_values():
    rows, columns = leaves((2, 3, 7), (2, 3, 5))
    to_rows = torch.autograd.grad(relative_shift(rows), rows, columns)
    torch.testing.assert_close(to_rows[0], relative_unshift(columns))
    to_columns = torch.autograd.grad(relative_unshift(columns), columns, rows)
    torch.testing.assert_close(to_columns[0], relative_shift(rows))
