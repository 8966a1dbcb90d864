"""The papers' numbers are in the papers, where their text is at hand."""

import re
from pathlib import Path

import pytest

from fairseq_posattn.recipes.papers import RECIPES

PAPERS = Path(__file__).parents[3] / "shared" / "papers"


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers' text is not here")
@pytest.mark.parametrize("name", RECIPES)
def test_every_number_stands_in_its_paper(name):
    recipe = RECIPES[name]
    locality = getattr(recipe, "locality", None)
    rows = locality.rows if locality else recipe.rows
    published = {part for row in rows for part in re.findall(r"[\d.]+", row.paper)}
    if not published:
        return
    text = (PAPERS / f"{recipe.paper}.txt").read_text(encoding="utf-8")
    found = set(re.findall(r"\d+\.\d+", text)) | {f"0{part}" for part in re.findall(r"\.\d+", text)}
    assert sorted(published - found) == []
