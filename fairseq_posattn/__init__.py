"""Position-aware and locality-aware attention for fairseq.

This is the module that ``--user-dir`` imports: it registers the plugin with the fairseq that is
loaded then. Imported where fairseq is not loaded it does nothing, so that
:mod:`fairseq_posattn.attention` costs no more than PyTorch; a program that wants fairseq afterwards
calls :func:`fairseq_posattn.training.plugin.register`.
"""

import sys

__version__ = "0.2.0.dev0"

if "fairseq" in sys.modules:
    from fairseq_posattn.training.plugin import register

    register()
