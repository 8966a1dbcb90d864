"""Recurrent networks over sentences of different lengths, for the encoders that are one."""

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def run_over_words(
    network: nn.RNNBase, words: Tensor, key_padding_mask: Tensor | None = None
) -> Tensor:
    """The states of a network at each word; what looks back begins at the last real one.

    Args:
        network: with ``batch_first``.
        words: ``[B, T, input_dim]``, padded on the right if at all.
        key_padding_mask: bool ``[B, T]``, True where padded.

    Returns:
        ``[B, T, output_dim]``. Padded positions come out as zero, but for the first one of a row of
        nothing but padding.
    """
    if key_padding_mask is None:
        return network(words)[0]
    lengths = (~key_padding_mask).sum(1).clamp(min=1).cpu()
    packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
    states, _ = network(packed)
    return pad_packed_sequence(states, batch_first=True, total_length=words.size(1))[0]


def half_of(output_dim: int) -> int:
    """The features of each of two directions.

    Raises:
        ValueError: ``output_dim`` is odd.
    """
    if output_dim % 2:
        raise ValueError(f"{output_dim} features cannot be halved between two directions")
    return output_dim // 2


class Recurrent(nn.Module):
    """The states of a recurrent network at each word, of both directions side by side.

    Args:
        kind: :class:`torch.nn.LSTM` or :class:`torch.nn.GRU`.
        input_dim: features of the input.
        output_dim: features of the result, of all directions together.
        layers: one upon another.
        dropout: probability of dropping a feature between layers.
        bidirectional: whether it looks back, too.

    Attributes:
        output_dim: as given.

    Raises:
        ValueError: ``output_dim`` is odd and there are two directions.
    """

    def __init__(
        self,
        kind: type[nn.RNNBase],
        input_dim: int,
        output_dim: int,
        layers: int = 1,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ):
        super().__init__()
        self.network = kind(
            input_dim,
            half_of(output_dim) if bidirectional else output_dim,
            layers,
            batch_first=True,
            bidirectional=bidirectional,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.output_dim = output_dim

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, input_dim]`` to ``[B, T, output_dim]``: see :func:`run_over_words`."""
        return run_over_words(self.network, words, key_padding_mask)
