"""Networks without fairseq; hidden states of Transformer layers are ``[T, B, C]``."""
