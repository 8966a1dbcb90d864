import pytest
import torch
import torch.nn.functional as F
from reference import Draws

from fairseq_posattn.model.classifier import PAIR_FEATURES, ClassificationHead, Highway


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


def test_a_highway_goes_between_its_input_and_elu():
    torch.manual_seed(0)
    highway, x = Highway(4), torch.randn(3, 4)
    torch.nn.init.constant_(highway.gate.bias, -100.0)
    torch.testing.assert_close(highway(x), x)
    torch.nn.init.constant_(highway.gate.bias, 100.0)
    torch.testing.assert_close(highway(x), F.elu(highway.map(x)))


def test_layers_one_after_another():
    torch.manual_seed(0)
    head = ClassificationHead(6, 3, hidden_dim=4, highway_layers=1, dropout=0.5).eval()
    first, highway, last = (module for module in head.layers if list(module.parameters()))
    x = torch.randn(2, 6)
    torch.testing.assert_close(head(x), last(highway(F.elu(first(x)))))


def test_a_highway_carries_what_its_maps_lose(monkeypatch):
    """MTSA's published code; with ReLU here."""
    head = ClassificationHead(
        6, 3, 4, 1, dropout=0.5, activation=torch.nn.ReLU(), drop_carried=False
    )
    x = torch.randn(2, 6, dtype=torch.float64)
    draws = Draws(monkeypatch)
    scores = head.double()(x)
    drawn = draws.named(0.5, layer=(2, 6), gate=(2, 4), map=(2, 4), classes=(2, 4))
    first, highway, last = (module for module in head.layers if list(module.parameters()))
    x = first(x * drawn["layer"]).clamp(min=0)
    gate = highway.gate(x * drawn["gate"]).sigmoid()
    x = gate * highway.map(x * drawn["map"]).clamp(min=0) + (1 - gate) * x
    torch.testing.assert_close(scores, last(x * drawn["classes"]))


def test_parameters():
    """MPSAN's and MTSA's heads, and a plain linear layer."""
    count = lambda head: sum(parameter.numel() for parameter in head.parameters())  # noqa: E731
    assert count(ClassificationHead(300, 5)) == 5 * 300 + 5
    assert count(ClassificationHead(300, 5, hidden_dim=300)) == (300 * 300 + 300) + 5 * 300 + 5
    with_highway = ClassificationHead(2400, 3, hidden_dim=300, highway_layers=1)
    assert count(with_highway) == (2400 * 300 + 300) + 2 * (300 * 300 + 300) + 3 * 300 + 3
