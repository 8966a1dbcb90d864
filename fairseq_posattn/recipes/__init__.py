"""The papers' tables as data, and a runner that trains and measures their rows.

``recipe`` has the data classes, ``papers`` the tables, ``custom`` reads those of users.
``generation`` and ``classification`` turn a table and the options into fairseq's command lines,
``runner`` runs them, ``tables`` prints the results, ``bundle`` archives and verifies them. Only
``tiny`` and ``row_check`` import PyTorch or fairseq, so that listing a recipe is fast.
"""
