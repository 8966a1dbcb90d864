"""Preparation of data sets, from published or custom files to binarized data: ``posattn prepare``.

``pipeline`` has the steps of all data sets, ``kinds`` those of one kind. ``corpora`` reads what
published.yaml describes, ``own_labels`` and ``own_pairs`` the user's files. Nothing imports PyTorch
or fairseq; fairseq-preprocess runs in a process of its own.
"""
