"""A corpus of one's own: the user's files in place of a publication.

``tables`` reads labelled text, ``labels`` describes it as the published data sets are described;
``division`` holds examples out, ``report`` tells what there is, ``training`` what trains on it.
"""
