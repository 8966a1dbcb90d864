import pytest
import torch
from reference import Draws

from fairseq_posattn.model.encoders.transformer import AttentionEncoder, TransformerEncoder
from fairseq_posattn.training.flags import SentenceEncoderConfig

PADDING = torch.tensor([[False, False, False, False], [False, False, False, True]])


def build(dim, **options):
    sizes = {"encoder_hidden_dim": 4, "encoder_attention_heads": 2}
    return AttentionEncoder(SentenceEncoderConfig(**sizes, dropout_places="maps", **options), dim)


@pytest.mark.parametrize("dropout, bias", [(0.0, True), (0.0, False), (0.4, True)])
def test_contexts_of_the_heads_are_concatenated(dropout, bias, monkeypatch):
    """Dropout before the projections is drawn for each of them and each head."""
    torch.manual_seed(0)
    module = build(3, no_attention_bias=not bias, dropout=dropout).double()
    tokens, draws = torch.randn(2, 4, 3, dtype=torch.float64), Draws(monkeypatch)
    encoded = module(tokens, PADDING)
    drawn = torch.ones(2, 6, 4, 3)
    if dropout:
        drawn = draws.named(dropout, tokens=(2, 6, 4, 3))["tokens"]
    weight = module.qkv_proj.weight.view(3, 2, 2, 3)  # of q, k, v and of each head
    offset = module.qkv_proj.bias.view(3, 2, 2) if bias else torch.zeros(3, 2, 2).double()
    for row, length in enumerate([4, 3]):
        for head in range(2):
            query, key, value = (
                (tokens[row] * drawn[row, 2 * part + head])[:length] @ weight[part, head].T
                + offset[part, head]
                for part in range(3)
            )
            expected = (query @ key.T / 2**0.5).softmax(-1) @ value
            result = encoded[row, :length, 2 * head : 2 * head + 2]
            torch.testing.assert_close(result, expected)


def sinusoids(length):
    """Return the positions of four features."""
    position = torch.arange(float(length))
    return torch.stack([w(position * f) for f in (1, 0.01) for w in (torch.sin, torch.cos)], -1)


def test_positions_are_added_to_the_tokens():
    module, plain = build(4, attention_positions=True, dropout=0.0), build(4, dropout=0.0)
    plain.load_state_dict(module.state_dict())
    tokens = torch.randn(2, 4, 4)
    torch.testing.assert_close(module(tokens, PADDING), plain(tokens + sinusoids(4), PADDING))


@pytest.mark.parametrize("name, scale", [("none", 1.0), ("sqrt", 2.0)])
def test_positions_are_added_after_tokens_are_mapped_and_scaled(name, scale):
    sizes = {"encoder_hidden_dim": 4, "encoder_attention_heads": 2, "encoder_layers": 0}
    encoder = TransformerEncoder(SentenceEncoderConfig(**sizes, embedding_scale=name), 3)
    tokens, padding = torch.randn(2, 6, 3), torch.zeros(2, 6, dtype=torch.bool)
    added = encoder(tokens, padding) - scale * encoder.input_map(tokens)
    torch.testing.assert_close(added, sinusoids(6).expand(2, 6, 4), atol=1e-5, rtol=0)
