"""A corpus of one's own: the user's files in place of a publication.

``labels`` describes labelled text as the published data sets are described, which ``tables`` reads;
``pairs`` does so for translations and ``summaries`` for texts and their summaries, which
``pair_files`` reads from two files or from a table;
``division`` holds examples out, ``report`` tells what there is, ``training`` what trains on it.
"""
