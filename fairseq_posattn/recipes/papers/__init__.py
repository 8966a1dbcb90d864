"""The recipes, one file a paper."""

from fairseq_posattn.recipes.papers.classifiers import RECIPES as CLASSIFIERS
from fairseq_posattn.recipes.papers.cspan_tables import RECIPES as CSPAN
from fairseq_posattn.recipes.papers.da_transformer_tables import RECIPES as DA_TRANSFORMER
from fairseq_posattn.recipes.papers.dman_tables import RECIPES as DMAN
from fairseq_posattn.recipes.papers.mpsan_tables import RECIPES as MPSAN
from fairseq_posattn.recipes.papers.mtsa_tables import RECIPES as MTSA
from fairseq_posattn.recipes.papers.multi30k import RECIPES as MULTI30K
from fairseq_posattn.recipes.recipe import Recipe

PAPERS = (CLASSIFIERS, CSPAN, DA_TRANSFORMER, DMAN, MPSAN, MTSA, MULTI30K)
RECIPES: dict[str, Recipe] = {recipe.name: recipe for paper in PAPERS for recipe in paper}
