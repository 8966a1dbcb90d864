"""Attention and learned parameters of trained models, as numbers and as pictures of these."""
