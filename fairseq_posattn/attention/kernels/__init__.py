"""The attention functions, fast: as kernels in Triton (docs/fused_attention.md).

Nothing here makes a tensor ``[B, H, Tq, Tk]``: scores live in tiles, a block of queries by a block
of keys, as in FlashAttention (Dao, 2023, "FlashAttention-2").

- ``tile.py``: what the kernels do to one tile: load, multiply, drop, sum along diagonals.
- ``masks.py``: positional masks inside kernels.
- ``distance_scores.py``: the kernels of DMAN and DA, whose scores are dot products that a function
  of the distance adjusts. ``dman.py`` and ``da.py`` give them their arguments.
- ``mtsa.py``, ``mpsan.py``: theirs.
- ``launch.py``: what every launch works out first.
- ``support.py``: which calls the kernels can serve, and which they should.
- ``trial.py``: whether they agree with the reference on the GPU at hand.

Only ``support.py`` and ``trial.py`` may be imported where Triton is not installed.
"""
