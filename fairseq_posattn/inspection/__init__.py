"""Attention and learned parameters of trained models.

A figure is made by two functions of one file: the numbers, as plain lists and dictionaries that
``--json`` writes, and a drawing of these numbers.
"""

from fairseq_posattn.training.plugin import register

register()  # before the first import of fairseq, which it quiets
