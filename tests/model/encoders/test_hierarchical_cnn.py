import pytest
import torch

from fairseq_posattn.model.encoders.cnn import HierarchicalCNN

PADDING = torch.tensor([[False] * 6, [False, False, False, True, True, True]])


def by_position(module, words):
    """Linear layer; in each layer gated windows added to their middle; linear layer."""
    x = words @ module.input_map.weight.T + module.input_map.bias
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
def test_equals_the_windows_one_by_one(widths):
    torch.manual_seed(0)
    module = HierarchicalCNN(3, 4, widths).double()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter)
    words = torch.randn(2, 6, 3, dtype=torch.float64)
    features = module(words, PADDING)
    torch.testing.assert_close(features[0], by_position(module, words[0]))
    torch.testing.assert_close(features[1, :3], by_position(module, words[1, :3]))
    torch.testing.assert_close(module(words)[0], features[0])
