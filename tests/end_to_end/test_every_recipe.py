"""Every row of every recipe in its tiny form, from the data to the table: ``pytest -m nightly``."""

import pytest
from forked_recipes import measured_rows

from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.recipe import GenerationRecipe

CASES = [
    (name, "" if isinstance(recipe, GenerationRecipe) else dataset.name)
    for name, recipe in RECIPES.items()
    for dataset in getattr(recipe, "datasets", (None,))
]
# A tiny epoch may last less than a second, fairseq's unit; tiny sentences are short.
ABSENT = {"epoch_s", "bleu 13 to 24", "bleu 25 to 48"}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Return the folder of all runs of a paper: recipes share data and common models."""
    folder = tmp_path_factory.mktemp("every_recipe")
    return lambda name: folder / name.partition("/")[0]


@pytest.mark.nightly
@pytest.mark.parametrize("name, dataset", CASES)
def test_every_row_has_all_numbers_of_its_table(recipe_run, out, name, dataset):
    folder, recipe = out(name), RECIPES[name]
    chosen = ["--datasets", dataset, "--folds", 1] if dataset else []
    recipe_run(name, "--tiny", "--out", folder, *chosen)
    rows = (recipe.locality or recipe).rows if not dataset else recipe.rows
    table = measured_rows(folder / f"{recipe.table}.json")
    measured = [row for row in table if row["table"].endswith(dataset)]
    assert [row["row"] for row in measured] == [row.name for row in rows]
    missing = {row["row"]: set(row["paper"]) - {*row["scores"], *ABSENT} for row in measured}
    assert {row: names for row, names in missing.items() if names} == {}
