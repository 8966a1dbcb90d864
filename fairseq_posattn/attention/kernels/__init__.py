"""Triton kernels of the attention functions (docs/fused_attention.md).

No kernel stores a tensor ``[B, H, Tq, Tk]``: scores exist in tiles, a block of queries by a block
of keys, as in FlashAttention (Dao, 2023, "FlashAttention-2"). Only ``support.py`` may be imported
without Triton.
"""
