"""The attention functions that are faster than their equations read, as kernels in Triton.

Nothing here makes a tensor ``[B, H, Tq, Tk]``: scores live in tiles, a block of queries by a block
of keys, as in FlashAttention (Dao, 2023, "FlashAttention-2").

- ``tile.py``: what the kernels do to one tile: load, multiply, drop, sum along diagonals.
- ``distance_scores.py``: the kernels of DMAN and DA, whose scores are dot products that a function
  of the distance adjusts. ``dynamic_mask.py`` and ``distance_aware.py`` give them their arguments.
- ``tensorized.py``: MTSA. ``additive.py``: MPSAN.
- ``support.py``: which calls the kernels can serve, and which they should.

Only ``support.py`` may be imported where Triton is not installed.
"""
