"""Checkpoints of fairseq's, from here or elsewhere: what may be in them, and how they are read.

``reading`` reads one; ``form`` and ``contents`` check the file before and after; ``settings``
checks what it says of task and model; ``options`` adds what older versions did not know; ``good``
finds others beside one that is damaged.
"""
