"""Triton kernels of the attention functions (docs/fused_attention.md).

No kernel stores a tensor ``[B, H, Tq, Tk]``: scores exist in tiles, a block of queries by a block
of keys, as in FlashAttention (Dao, 2023, "FlashAttention-2").

- DMAN and DA: ``distance_attention.py`` (entry points), ``distance_scores.py`` and
  ``distance_lines.py`` (kernels); MTSA: ``mtsa_triton.py``, ``tensor_scores.py``; MPSAN:
  ``mpsan_triton.py``.
- ``launch.py``: launches, differentiable functions and operators; ``tiles.py``: tile sizes by GPU;
  ``support.py``: calls that the kernels can serve.
- ``ops.py``: operations on one tile; ``masks.py``: positional masks.

Only ``support.py`` may be imported without Triton.
"""
