"""Translations and summaries of plain text, from a trained model.

    from fairseq_posattn.inference import translation

    translator = translation.load("checkpoints/iwslt14/checkpoint_best.pt")
    translator("Guten Morgen!").text

``posattn translate`` and ``posattn summarize`` do the same from the command line.
"""

from fairseq_posattn.inference.translation.hypotheses import Alignment, Hypothesis, Translation
from fairseq_posattn.inference.translation.translator import (
    Decoding,
    Translator,
    load,
    translates,
    translator_of,
)

__all__ = [
    "Alignment",
    "Decoding",
    "Hypothesis",
    "Translation",
    "Translator",
    "load",
    "translates",
    "translator_of",
]
