"""The models as PyTorch has them: what fairseq, and others, are given is made of these."""
