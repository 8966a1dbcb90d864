import pytest
import torch
import torch.nn.functional as F
from oracles import loops
from reference import leaves, shaken

from fairseq_posattn.model.encoders.cspan import FUSIONS, SemanticPositionalAttention
from fairseq_posattn.training.flags import SentenceEncoderConfig

PADDING = torch.tensor(
    [[False, False, False, False, False], [False, False, False, True, True], [True] * 5]
)


def by_position(x, padding):
    """Return eq. 4: query, key and value are the same."""
    vectors = dict.fromkeys(("query", "key", "value"), x.unsqueeze(1))
    return loops("san", vectors, padding).squeeze(1)


def model(fusion, residual=True):
    torch.manual_seed(0)
    options = {"cspan_fusion": fusion, "cspan_no_residual": not residual, "rpr_max_distance": 2}
    return shaken(SemanticPositionalAttention(SentenceEncoderConfig(dropout=0.0, **options), 4))


def by_equations(module, fusion, residual, tokens):
    """Eq. 4 to 9, and the other rows of Table 5 and Figure 2."""

    def attend(norm, x):
        return F.layer_norm(by_position(x, PADDING), (4,), norm.weight, norm.bias)

    x = tokens
    if fusion == "position":  # eq. 1 and 2
        angles = torch.arange(5.0).double()[:, None] / torch.tensor([1.0, 100.0]).double()
        x = x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)
    semantic = attend(module.semantic_norm, x)
    if fusion in ("none", "position"):
        return semantic
    positional = module.lstm(semantic if fusion == "cascaded" else tokens, PADDING)
    if fusion != "parallel_lstm":
        positional = attend(module.positional_norm, positional)
    return semantic + positional if residual else positional


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("fusion", [name for name in FUSIONS if name != "relative_position"])
def test_every_fusion_equals_the_equations(fusion, residual):
    module = model(fusion, residual)
    (tokens,) = leaves((3, 5, 4))
    output, expected = module(tokens, PADDING), by_equations(module, fusion, residual, tokens)
    torch.testing.assert_close(output[~PADDING], expected[~PADDING])


def test_relative_positions_in_the_attention():
    """Table 5 (c): with embeddings of zero it is (a)."""
    module, plain = model("relative_position"), model("none")
    plain.load_state_dict(module.state_dict(), strict=False)
    (tokens,) = leaves((3, 5, 4))
    alone = module(tokens[1:2, :3])
    torch.testing.assert_close(module(tokens, PADDING)[1, :3], alone[0])
    assert not torch.allclose(module(tokens, PADDING), plain(tokens, PADDING))
    for table in (module.relative.key_embedding, module.relative.value_embedding):
        torch.nn.init.zeros_(table)
    torch.testing.assert_close(module(tokens, PADDING), plain(tokens, PADDING))
