"""Tatoeba, German to English: the mechanisms on a second corpus, of short sentences."""

from dataclasses import replace

from fairseq_posattn.recipes.papers.mechanisms import ABOUT, ALL, SIDE_BY_SIDE, table
from fairseq_posattn.recipes.papers.multi30k import FULL, SMALLER

RECIPES = (
    table(
        "tatoeba/mechanisms",
        SIDE_BY_SIDE,
        "Tatoeba",
        f"{ABOUT} All settings are those of Multi30k. --small: 2+2 layers, 128 wide.",
        ALL,
        replace(FULL, corpus="tatoeba", preparation="translation tatoeba"),
        replace(
            SMALLER,
            corpus="tatoeba-4000",
            preparation="translation tatoeba --bpe-operations 4000",
        ),
    ),
)
