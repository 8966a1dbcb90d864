"""The recipes, one file a paper."""

from fairseq_posattn.recipes.papers import (
    classifiers,
    cspan_tables,
    da_transformer_tables,
    dman_tables,
    mpsan_tables,
    mtsa_tables,
    multi30k,
    tatoeba,
)
from fairseq_posattn.recipes.recipe import Recipe

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for paper in (
        classifiers,
        cspan_tables,
        da_transformer_tables,
        dman_tables,
        mpsan_tables,
        mtsa_tables,
        multi30k,
        tatoeba,
    )
    for recipe in paper.RECIPES
}
