"""Scores of what a model wrote: reads hypotheses and references, computes BLEU and ROUGE.

The commands are ``scripts/score_bleu.py`` and ``scripts/score_rouge.py``.
"""
