import math

import pytest
import torch

from fairseq_posattn.attention.sinusoid import relative_sinusoids


@pytest.mark.parametrize("features", [1, 2, 5, 6])
def test_sinusoids_by_their_formula(features):
    ours = relative_sinusoids(3, 4, features, dtype=torch.float64)
    expected = []
    for distance in range(-2, 4):
        row = []
        for feature in range(features):
            wave = math.cos if feature % 2 else math.sin
            row.append(wave(distance / 10000 ** ((feature - feature % 2) / features)))
        expected.append(row)
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64))


def test_sines_tell_the_direction_and_cosines_do_not():
    ours = relative_sinusoids(6, 6, 7)
    torch.testing.assert_close(ours.flip(0)[:, ::2], -ours[:, ::2])
    torch.testing.assert_close(ours.flip(0)[:, 1::2], ours[:, 1::2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_low_precision_rounds_the_sinusoid_not_the_distance(dtype):
    ours = relative_sinusoids(1, 70_001, 4, dtype=dtype)
    exact = relative_sinusoids(1, 70_001, 4, dtype=torch.float64)
    assert ours.dtype == dtype
    assert (ours.double() - exact).abs().max() < 0.01
