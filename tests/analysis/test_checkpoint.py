from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

from fairseq_posattn.analysis.checkpoint import TrainedModel, load
from fairseq_posattn.errors import UsageError


def test_sublayers_are_named_as_in_the_flags(build):
    encoder, _ = build("dman,san,ffn")
    model = SimpleNamespace(encoder=encoder)
    trained = TrainedModel("best.pt", model, Namespace(encoder_sublayers="dman,san,ffn"), None)
    found = trained.attention_sublayers("encoder")
    assert [sublayer.name for sublayer in found] == ["dman", "san", "dman", "san"]


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_a_model_without_sublayers(side):
    stock = torch.nn.Transformer(4, 1, 1, 1, 4)  # has an encoder and a decoder of other layers
    trained = TrainedModel("best.pt", stock, Namespace(), None)
    with pytest.raises(UsageError, match=f"^best.pt is a Transformer whose {side} has no sub"):
        trained.attention_sublayers(side)


def test_no_such_checkpoint(tmp_path):
    path = str(tmp_path / "best.pt")
    with pytest.raises(UsageError, match=f"^{path}: there is no such checkpoint$"):
        load(path)
