import pytest
import torch

from fairseq_posattn.model.classifier import PAIR_FEATURES


@pytest.mark.parametrize(
    "name, expected",
    [
        ("difference", [1.0, 4.0, 3.0, -2.0, -2.0, 6.0, 3.0, -8.0]),
        ("distance", [2.0, 6.0, 3.0, -8.0]),
    ],
)
def test_pair_features(name, expected):
    of_pair, times = PAIR_FEATURES[name]
    features = of_pair(torch.tensor([[1.0, 4.0]]), torch.tensor([[3.0, -2.0]]))
    torch.testing.assert_close(features, torch.tensor([expected]))
    assert features.size(1) == times * 2
