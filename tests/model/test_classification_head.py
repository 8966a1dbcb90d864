import pytest
import torch
from reference import Draws

from fairseq_posattn.model.classifier import PAIR_FEATURES, ClassificationHead
from fairseq_posattn.training.models import PosAttnClassifierConfig


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


def test_a_highway_carries_what_its_maps_lose(monkeypatch):
    """MTSA's published code; with ReLU here."""
    cfg = PosAttnClassifierConfig(head_dim=4, head_highway_layers=1, dropout=0.5)
    cfg.dropout_places, cfg.map_activation = "maps", "relu"
    head = ClassificationHead(cfg, 6, 3)
    x = torch.randn(2, 6, dtype=torch.float64)
    draws = Draws(monkeypatch)
    scores = head.double()(x)
    drawn = draws.named(0.5, layer=(2, 6), gate=(2, 4), map=(2, 4), classes=(2, 4))
    first, highway, last = (module for module in head.layers if list(module.parameters()))
    x = first(x * drawn["layer"]).clamp(min=0)
    gate = highway.gate(x * drawn["gate"]).sigmoid()
    x = gate * highway.map(x * drawn["map"]).clamp(min=0) + (1 - gate) * x
    torch.testing.assert_close(scores, last(x * drawn["classes"]))
