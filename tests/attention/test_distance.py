import torch

from fairseq_posattn.attention.positions import blocked_keys, distance_matrix, signed_distances


def test_distances_of_a_square():
    matrix = distance_matrix(signed_distances(3, 3), 3, 3)
    assert matrix.tolist() == [[0, -1, -2], [1, 0, -1], [2, 1, 0]]


def test_queries_are_the_last_positions():
    assert distance_matrix(signed_distances(1, 4), 1, 4).tolist() == [[3, 2, 1, 0]]
    assert distance_matrix(signed_distances(2, 3), 2, 3).tolist() == [[1, 0, -1], [2, 1, 0]]


def test_distance_matrix_keeps_leading_dimensions():
    line = torch.tensor([[-1, 0, 1], [10, 20, 30]])
    assert distance_matrix(line, 2, 2).tolist() == [[[0, -1], [1, 0]], [[20, 10], [30, 20]]]


def test_the_gradient_of_a_line_sums_diagonals():
    line = torch.zeros(5, requires_grad=True)
    weights = torch.arange(9.0).view(3, 3)
    (distance_matrix(line, 3, 3) * weights).sum().backward()
    assert line.grad.tolist() == [weights.diagonal(i).sum().item() for i in (2, 1, 0, -1, -2)]


def test_nothing_blocked_is_none():
    assert blocked_keys(3, 3) is None
    assert blocked_keys(1, 5, causal=True) is None


def test_causal_blocks_what_comes_after():
    blocked = blocked_keys(2, 3, causal=True)
    assert blocked.tolist() == [[[[False, False, True], [False, False, False]]]]


def test_padding_and_causality_add_up():
    padding = torch.tensor([[True, False, False]])
    blocked = blocked_keys(3, 3, padding, causal=True)
    assert blocked.int().tolist() == [[[[1, 1, 1], [1, 0, 1], [1, 0, 0]]]]
