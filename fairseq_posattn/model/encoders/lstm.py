"""``--encoder lstm``: an LSTM from the first word to the last (Zhang et al., 2015)."""

from argparse import Namespace

from torch import nn

from fairseq_posattn.model.encoders.recurrent import Recurrent


def build(cfg: Namespace, dim: int) -> Recurrent:
    hidden_dim = cfg.encoder_hidden_dim or dim
    return Recurrent(nn.LSTM, dim, hidden_dim, cfg.lstm_layers, cfg.dropout)
