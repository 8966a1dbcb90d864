"""From published data sets to binarised data: ``posattn prepare``.

``pipeline`` fetches, reads and writes; ``text`` makes words, subwords and vocabularies; ``corpora``
knows each publication. None of it imports PyTorch or fairseq, whose fairseq-preprocess runs in a
process of its own.
"""
