import pytest
import torch

from fairseq_posattn.model.encoders.transformer import TransformerEncoder


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_positions_are_added_after_words_are_mapped_and_scaled(scale):
    encoder = TransformerEncoder(3, 4, [], positions=True, normalize_after=False, scale=scale)
    words, padding = torch.randn(2, 6, 3), torch.zeros(2, 6, dtype=torch.bool)
    added = encoder(words, padding) - scale * encoder.input_map(words)
    position = torch.arange(6.0)
    waves = [wave(position * step) for step in (1, 0.01) for wave in (torch.sin, torch.cos)]
    expected = torch.stack(waves, -1)
    torch.testing.assert_close(added, expected.expand(2, 6, 4), atol=1e-5, rtol=0)
