"""Attention and learned parameters of trained models.

A figure is made by two functions of one file: the numbers, as plain lists and dictionaries that
``--json`` writes, and a drawing of these numbers.
"""
