"""The kinds of data sets: what is done from downloaded files to binarised data."""
