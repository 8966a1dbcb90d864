"""fairseq models and their named architectures; importing this package registers them."""

from fairseq_posattn.models import seq2seq_architectures
from fairseq_posattn.models.seq2seq import PosAttnTransformer, PosAttnTransformerConfig

seq2seq_architectures.register()

__all__ = ["PosAttnTransformer", "PosAttnTransformerConfig"]
