"""MTSA's encoder, beside test_mtsa_by_loops.py."""

import torch
import torch.nn.functional as F

from fairseq_posattn.model.encoders.mtsa import TensorizedEncoder
from fairseq_posattn.training.flags import SentenceEncoderConfig

PADDING = torch.tensor([[False, False, False, False], [False, False, False, True]])


def encoder(dim=3, **options):
    torch.manual_seed(0)
    options = {"encoder_attention_heads": 2, "encoder_hidden_dim": 4, **options}
    return TensorizedEncoder(SentenceEncoderConfig(dropout=0.0, **options), dim)


def test_without_attention_it_is_the_values():
    """Table 3, without the proposed modules."""
    module = encoder(mtsa_scores="none", mtsa_fusion_gate=True)
    tokens = torch.randn(2, 4, 3)
    torch.testing.assert_close(module(tokens, PADDING), F.elu(module.value_map(tokens)))
    assert sum(parameter.numel() for parameter in module.parameters()) == 3 * 4 + 4


def test_each_head_starts_as_a_map_of_its_own():
    """Glorot's bound of the published code is that of a head, not of all heads together."""
    module = encoder(40, encoder_hidden_dim=40, encoder_attention_heads=4)
    bound = (6 / (40 + 10)) ** 0.5
    for weight in module.value_map.weight.detach().chunk(4):
        assert 0.95 * bound < weight.abs().max() <= bound


def test_source_scores_of_the_input_take_tokens_of_other_sizes():
    module = encoder(mtsa_source="input", mtsa_source_layers=1)
    tokens = torch.randn(2, 4, 3)
    assert module(tokens, PADDING).shape == (2, 4, 4)
    assert module.attention.source_input.weight.shape == (4, 3)
