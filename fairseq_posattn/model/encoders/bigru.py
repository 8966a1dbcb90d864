"""``--encoder bigru``: gated recurrent units in both directions (Chung et al., 2014).

Pooled by a query of attention, over words and over sentences, they are hierarchical attention
networks (HAN, Yang et al., 2016).
"""

from argparse import Namespace

from torch import nn

from fairseq_posattn.model.encoders.recurrent import Recurrent


def build(cfg: Namespace, dim: int) -> Recurrent:
    hidden_dim = cfg.encoder_hidden_dim or dim
    return Recurrent(nn.GRU, dim, hidden_dim, cfg.lstm_layers, cfg.dropout, bidirectional=True)
