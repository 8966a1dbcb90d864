"""The data sets, a file a publication."""
