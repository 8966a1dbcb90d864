"""Preparation of data sets, from published or custom files to binarized data: ``posattn prepare``.

``kinds`` prepares each kind of data, ``corpora`` describes publications, ``custom`` the user's
files. Nothing imports PyTorch or fairseq; fairseq-preprocess runs in a process of its own.
"""
