"""The attention functions, fast: as kernels in Triton (docs/fused_attention.md).

Nothing here makes a tensor ``[B, H, Tq, Tk]``: scores live in tiles, a block of queries by a block
of keys, as in FlashAttention (Dao, 2023, "FlashAttention-2").

- ``dman.py``, ``da.py``, ``mtsa.py``, ``mpsan.py``: a function each, called as the reference is.
- ``distance_scores.py``: the kernels of DMAN and DA, whose scores are dot products that a function
  of the distance adjusts; ``distance_lines.py``: those of that function; ``distance_attention.py``
  launches both. ``tensor_scores.py``: MTSA's.
- ``tile.py``: what the kernels do to one tile: load, multiply, drop, sum along diagonals.
- ``masks.py``: positional masks inside kernels.
- ``launch.py``: what every launch works out first.
- ``support.py``: which calls the kernels can serve, and which they should.

Only ``support.py`` may be imported where Triton is not installed. No mechanism is imported here.
"""
