"""Position-aware and locality-aware attention for fairseq.

``--user-dir`` imports this module, which registers the plugin if fairseq is loaded. Otherwise it
does nothing, so that :mod:`fairseq_posattn.attention` needs only PyTorch; call
:func:`fairseq_posattn.training.plugin.register` to load and patch fairseq later.
"""

import sys

__version__ = "0.2.0.dev0"

if "fairseq" in sys.modules:
    from fairseq_posattn.training.plugin import register

    register()
