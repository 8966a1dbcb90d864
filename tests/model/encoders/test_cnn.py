import pytest
import torch

from fairseq_posattn.model.encoders.cnn import NGramConvolutions

PADDING = torch.tensor([[False, False, False, False, False], [False, False, True, True, True]])


def by_position(module, words):
    """Each n-gram, with zeros beyond the ends; of an even n, one word more comes after."""
    length = len(words)
    rows = []
    for t in range(length):
        features = []
        for convolution in module.convolutions:
            (width,) = convolution.kernel_size
            total = convolution.bias
            for offset in range(width):
                s = t - (width - 1) // 2 + offset
                if 0 <= s < length:
                    total = total + convolution.weight[:, :, offset] @ words[s]
            features.append(total.clamp(min=0))
        rows.append(torch.cat(features))
    return torch.stack(rows)


@pytest.mark.parametrize("widths", [(3,), (3, 4, 5), (1, 2)])
def test_equals_the_ngrams_one_by_one(widths):
    torch.manual_seed(0)
    module = NGramConvolutions(3, 2 * len(widths), widths).double()
    for convolution in module.convolutions:
        torch.nn.init.normal_(convolution.bias)
    words = torch.randn(2, 5, 3, dtype=torch.float64)
    features = module(words, PADDING)
    torch.testing.assert_close(features[0], by_position(module, words[0]))
    torch.testing.assert_close(features[1, :2], by_position(module, words[1, :2]))
    torch.testing.assert_close(module(words)[0], features[0])
