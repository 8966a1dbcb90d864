"""``--encoder bilstm``: a part of CSPAN, a peer of the attentions (Graves, Schmidhuber, 2005)."""

from argparse import Namespace

from torch import Tensor, nn

from fairseq_posattn.model.encoders.recurrent import half_of, run_over_words


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
        self.lstm = nn.LSTM(
            input_dim,
            half_of(output_dim),
            layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.output_dim = output_dim

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, input_dim]`` to ``[B, T, output_dim]``: see :func:`run_over_words`."""
        return run_over_words(self.lstm, words, key_padding_mask)


def build(cfg: Namespace, dim: int) -> BiLSTM:
    return BiLSTM(dim, cfg.encoder_hidden_dim or dim, cfg.lstm_layers, cfg.dropout)
