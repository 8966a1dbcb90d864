import math

import pytest
import torch
import torch.nn.functional as F
from oracles import loops
from reference import assert_same_with_gradients, leaves

from fairseq_posattn.model.encoders.cspan import (
    FUSIONS,
    SemanticPositionalAttention,
    unprojected_attention,
)

PADDING = torch.tensor(
    [[False, False, False, False, False], [False, False, False, True, True], [True] * 5]
)


def by_position(x, padding):
    """Return eq. 4: query, key and value are the same."""
    return loops("san", dict.fromkeys(("query", "key", "value"), x.unsqueeze(1)), padding).squeeze(
        1
    )


def test_equals_the_equation():
    (x,) = leaves((3, 5, 4))
    assert_same_with_gradients(unprojected_attention(x, PADDING), by_position(x, PADDING), [x])


def model(fusion="cascaded", **options):
    torch.manual_seed(0)
    module = SemanticPositionalAttention(4, fusion=fusion, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def norm(layer_norm, x):
    return F.layer_norm(x, (4,), layer_norm.weight, layer_norm.bias)


def real(x):
    """Without the padded positions, whose values nobody looks at."""
    return x[~PADDING]


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("fusion", ["cascaded", "parallel"])
def test_meaning_and_position(fusion, residual):
    """Eq. 4 to 9: (e) of Table 5, and (d) with a second attention; Table 3's without residual."""
    module = model(fusion, residual=residual)
    (tokens,) = leaves((3, 5, 4))
    semantic = norm(module.semantic_norm, by_position(tokens, PADDING))
    ordered = module.lstm(semantic if fusion == "cascaded" else tokens, PADDING)
    positional = norm(module.positional_norm, by_position(ordered, PADDING))
    expected = semantic + positional if residual else positional
    torch.testing.assert_close(real(module(tokens, PADDING)), real(expected))


@pytest.mark.parametrize("residual", [True, False])
def test_the_bi_lstm_beside_the_attention(residual):
    """Table 5 (d), as Figure 2 has it: one self attention, S and the Bi-LSTM's states."""
    module = model("parallel_lstm", residual=residual)
    (tokens,) = leaves((3, 5, 4))
    semantic = norm(module.semantic_norm, by_position(tokens, PADDING))
    states = module.lstm(tokens, PADDING)
    expected = semantic + states if residual else states
    torch.testing.assert_close(real(module(tokens, PADDING)), real(expected))


def test_meaning_alone():
    """Table 5 (a)."""
    module = model("none")
    (tokens,) = leaves((3, 5, 4))
    expected = norm(module.semantic_norm, by_position(tokens, PADDING))
    torch.testing.assert_close(real(module(tokens, PADDING)), real(expected))


def test_positions_added_to_the_tokens():
    """Table 5 (b), with eq. 1 and 2."""
    module = model("position")
    (tokens,) = leaves((3, 5, 4))
    positions = torch.zeros(5, 4, dtype=torch.float64)
    for t in range(5):
        for i in range(2):
            positions[t, 2 * i] = math.sin(t / 10000 ** (2 * i / 4))
            positions[t, 2 * i + 1] = math.cos(t / 10000 ** (2 * i / 4))
    expected = norm(module.semantic_norm, by_position(tokens + positions, PADDING))
    torch.testing.assert_close(real(module(tokens, PADDING)), real(expected))


def test_relative_positions_in_the_attention():
    """Table 5 (c): with embeddings of zero it is (a)."""
    module, plain = model("relative_position", max_distance=2), model("none")
    plain.load_state_dict(module.state_dict(), strict=False)
    (tokens,) = leaves((3, 5, 4))
    assert not torch.allclose(module(tokens, PADDING), plain(tokens, PADDING))
    for table in (module.relative.key_embedding, module.relative.value_embedding):
        torch.nn.init.zeros_(table)
    torch.testing.assert_close(module(tokens, PADDING), plain(tokens, PADDING))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_padding_changes_nothing(fusion):
    module = model(fusion)
    (tokens,) = leaves((3, 5, 4))
    alone = module(tokens[1:2, :3])
    torch.testing.assert_close(module(tokens, PADDING)[1, :3], alone[0])
