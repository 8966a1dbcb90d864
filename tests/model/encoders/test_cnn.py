import pytest
import torch

from fairseq_posattn.model.encoders.cnn import HierarchicalCNN, NGramConvolutions

PADDING = torch.tensor([[False, False, False, False, False], [False, False, True, True, True]])


def by_position(module, tokens):
    """Each n-gram, with zeros beyond the ends; of an even n, one token more comes after."""
    length = len(tokens)
    rows = []
    for t in range(length):
        features = []
        for convolution in module.convolutions:
            (width,) = convolution.kernel_size
            total = convolution.bias
            for offset in range(width):
                s = t - (width - 1) // 2 + offset
                if 0 <= s < length:
                    total = total + convolution.weight[:, :, offset] @ tokens[s]
            features.append(total.clamp(min=0))
        rows.append(torch.cat(features))
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
        (width,) = layer.kernel_size
        rows = []
        for t in range(len(x)):
            window = layer.bias
            for offset in range(width):
                s = t - (width - 1) // 2 + offset
                if 0 <= s < len(x):
                    window = window + layer.weight[:, :, offset] @ x[s]
            features, gate = window.chunk(2)
            rows.append(x[t] + features * torch.sigmoid(gate))
        x = torch.stack(rows)
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
