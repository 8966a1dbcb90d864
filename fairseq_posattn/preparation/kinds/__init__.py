"""Kinds of data sets: what is written for each, and how it is described and reported."""
