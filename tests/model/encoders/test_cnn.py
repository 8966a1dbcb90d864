import pytest
import torch
from reference import shaken

from fairseq_posattn.model.encoders.cnn import HierarchicalCNN, NGramConvolutions
from fairseq_posattn.training.flags import SentenceEncoderConfig

PADDING = torch.tensor([[False] * 6, [False] * 3 + [True] * 3])


def window(layer, x, t):
    """Convolve the window of position t with zeros beyond the ends; an even width ends later."""
    (width,), total = layer.kernel_size, layer.bias
    for offset in range(width):
        s = t - (width - 1) // 2 + offset
        if 0 <= s < len(x):
            total = total + layer.weight[:, :, offset] @ x[s]
    return total


def by_position(module, tokens):
    rows = [
        torch.cat([window(layer, tokens, t).clamp(min=0) for layer in module.convolutions])
        for t in range(len(tokens))
    ]
    return torch.stack(rows)


def hierarchical_by_position(module, tokens):
    """Linear layer; in each layer gated windows added to their middle; linear layer."""
    x = tokens @ module.input_map.weight.T + module.input_map.bias
    for layer in module.convolutions:
        pairs = [window(layer, x, t).chunk(2) for t in range(len(x))]
        x = x + torch.stack([features * torch.sigmoid(gate) for features, gate in pairs])
    return x @ module.output_map.weight.T + module.output_map.bias


CASES = [(NGramConvolutions, by_position, widths) for widths in ("3", "3,4,5", "1,2", "1,2,3,4")]
CASES += [(HierarchicalCNN, hierarchical_by_position, widths) for widths in ("5,5,5", "3", "2,4")]


@pytest.mark.parametrize(("kind", "by_windows", "widths"), CASES)
def test_equals_its_windows_one_by_one(kind, by_windows, widths):
    cfg = SentenceEncoderConfig(encoder_hidden_dim=6, cnn_widths=widths, dropout=0.0)
    module, tokens = shaken(kind(cfg, 3)), torch.randn(2, 6, 3, dtype=torch.float64)
    features = module(tokens, PADDING)
    assert features.size(-1) == module.output_dim == 6
    torch.testing.assert_close(features[0], by_windows(module, tokens[0]))
    torch.testing.assert_close(features[1, :3], by_windows(module, tokens[1, :3]))
    torch.testing.assert_close(module(tokens)[0], features[0])
