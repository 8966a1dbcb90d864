"""``--encoder bilstm``: a part of CSPAN, a peer of the attentions (Graves, Schmidhuber, 2005)."""

from argparse import Namespace

from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class BiLSTM(nn.Module):
    """LSTMs in both directions, their states side by side.

    Args:
        input_dim: features of the input.
        output_dim: features of the result, half of them from each direction.
        layers: one upon another.
        dropout: probability of dropping a feature between layers.

    Attributes:
        output_dim: as given.

    Raises:
        ValueError: ``output_dim`` is odd.
    """

    def __init__(self, input_dim: int, output_dim: int, layers: int = 1, dropout: float = 0.0):
        super().__init__()
        if output_dim % 2:
            raise ValueError(f"{output_dim} features cannot be halved between two directions")
        self.lstm = nn.LSTM(
            input_dim,
            output_dim // 2,
            layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.output_dim = output_dim

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, input_dim]``, padded on the right if at all, to ``[B, T, output_dim]``.

        Args:
            key_padding_mask: bool ``[B, T]``, True where padded. Padded positions come out as zero,
                but for the first one of a row of nothing but padding.
        """
        if key_padding_mask is None:
            return self.lstm(words)[0]
        lengths = (~key_padding_mask).sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        states, _ = self.lstm(packed)
        return pad_packed_sequence(states, batch_first=True, total_length=words.size(1))[0]


def build(cfg: Namespace, dim: int) -> BiLSTM:
    return BiLSTM(dim, cfg.encoder_hidden_dim or dim, cfg.lstm_layers, cfg.dropout)
