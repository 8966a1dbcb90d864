"""The tables of the papers as data, and the runner that trains and measures their rows.

``recipe`` says what a recipe is and ``papers`` has them all; ``generation`` and ``classification``
turn one, as it is asked for, into the command lines of fairseq, ``run`` runs these and ``tables``
prints the paper's numbers beside ours. Nothing here imports PyTorch or fairseq: ``posattn recipe``
answers at once.
"""
