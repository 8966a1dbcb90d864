"""The papers' tables as data, and a runner that trains and measures their rows.

Only ``tiny`` and ``row_check`` import PyTorch or fairseq, so that listing a recipe is fast.
"""
