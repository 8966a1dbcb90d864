"""The mathematics: attention mechanisms as pure functions, and modules that own their parameters.

Nothing here imports fairseq. Shapes are written in these letters: B sentences, H heads, T positions
(Tq queries, Tk keys), D features of one head, C = H * D.
"""

from fairseq_posattn.attention.dot_product import DotProductAttention, dot_product_attention
from fairseq_posattn.attention.dynamic_mask import (
    DynamicMaskAttention,
    StaticMaskAttention,
    dynamic_mask_attention,
    mask_attention,
    static_mask,
)

__all__ = [
    "DotProductAttention",
    "DynamicMaskAttention",
    "StaticMaskAttention",
    "dot_product_attention",
    "dynamic_mask_attention",
    "mask_attention",
    "static_mask",
]
