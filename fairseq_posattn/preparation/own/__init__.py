"""A corpus of one's own: the user's files in place of a publication.

``labels`` describes labelled text as the published data sets are described, which ``tables`` reads;
``pairs`` does so for files that go together line by line;
``division`` holds examples out, ``report`` tells what there is, ``training`` what trains on it.
"""
