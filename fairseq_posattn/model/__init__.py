"""Sublayers, and the encoder and decoder layers built from a list of them.

Hidden states are ``[T, B, C]`` here, as in fairseq's Transformer.
"""
