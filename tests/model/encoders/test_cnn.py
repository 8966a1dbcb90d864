import pytest
import torch

from fairseq_posattn.model.encoders.cnn import HierarchicalCNN, NGramConvolutions

PADDING = torch.tensor([[False, False, False, False, False], [False, False, True, True, True]])


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


@pytest.mark.parametrize("widths", [(3,), (3, 4, 5), (1, 2)])
def test_equals_the_ngrams_one_by_one(widths):
    torch.manual_seed(0)
    module = NGramConvolutions(3, 2 * len(widths), widths).double()
    for convolution in module.convolutions:
        torch.nn.init.normal_(convolution.bias)
    tokens = torch.randn(2, 5, 3, dtype=torch.float64)
    features = module(tokens, PADDING)
    torch.testing.assert_close(features[0], by_position(module, tokens[0]))
    torch.testing.assert_close(features[1, :2], by_position(module, tokens[1, :2]))
    torch.testing.assert_close(module(tokens)[0], features[0])


HALF_PADDED = torch.tensor([[False] * 6, [False, False, False, True, True, True]])


def hierarchical_by_position(module, tokens):
    """Linear layer; in each layer gated windows added to their middle; linear layer."""
    x = tokens @ module.input_map.weight.T + module.input_map.bias
    for layer in module.convolutions:
        pairs = [window(layer, x, t).chunk(2) for t in range(len(x))]
        x = x + torch.stack([features * torch.sigmoid(gate) for features, gate in pairs])
    return x @ module.output_map.weight.T + module.output_map.bias


@pytest.mark.parametrize("widths", [(5, 5, 5), (3,), (2, 4)])
def test_hierarchical_cnn_equals_its_windows(widths):
    torch.manual_seed(0)
    module = HierarchicalCNN(3, 4, widths).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    tokens = torch.randn(2, 6, 3, dtype=torch.float64)
    features = module(tokens, HALF_PADDED)
    torch.testing.assert_close(features[0], hierarchical_by_position(module, tokens[0]))
    torch.testing.assert_close(features[1, :3], hierarchical_by_position(module, tokens[1, :3]))
    torch.testing.assert_close(module(tokens)[0], features[0])
