"""Position-aware and locality-aware attention for fairseq.

This is the module that ``--user-dir`` imports. It first makes fairseq work on today's PyTorch
(:mod:`fairseq_posattn.compat`) and then registers what the plugin adds.
"""

from fairseq_posattn import compat

compat.apply()
