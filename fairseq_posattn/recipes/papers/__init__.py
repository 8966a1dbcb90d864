"""The recipes: a YAML file for each paper, read here, and two modules with further studies.

In a file ``flags`` are named texts, inserted for ``$name`` in everything below; ``training`` is by
data set; ``settings`` are those of translation and summarization. A line of a table's ``rows`` has
a name, the paper's numbers, and the architecture with its flags, or "lead N" or "rank BASELINE";
flags of its tiny form may follow.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

import yaml

from fairseq_posattn.recipes.datasets import DATASETS, NEWS, ROLES
from fairseq_posattn.recipes.papers import classifiers, multi30k
from fairseq_posattn.recipes.recipe import (
    ClassificationRecipe,
    Generation,
    GenerationRecipe,
    Locality,
    Recipe,
    Training,
    rows,
)

NAMED = {**DATASETS, **{dataset.name: dataset for dataset in (*ROLES, *NEWS)}}
PAPERS = ("cspan", "da_transformer", "dman", "mpsan", "mtsa")
FOLDER = Path(__file__).parent
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_paper(path: Path) -> Iterator[Recipe]:
    """Yield the recipes of a paper's file."""
    content = yaml.load(path.read_text(encoding="utf-8"), LOADER)
    named: dict[str, str] = {}
    for name, text in content["flags"].items():
        named[name] = Template(text).substitute(named)
    content = _fill(content, named)
    for name, table in content["tables"].items():
        table = {"training": content.get("training"), **table}
        yield _recipe(f"{path.stem}/{name}", table)


def _fill(value: Any, named: Mapping[str, str]) -> Any:
    """Return a value with the named texts inserted; lists become tuples."""
    if isinstance(value, str):
        return Template(value).substitute(named)
    if isinstance(value, list):
        return tuple(_fill(one, named) for one in value)
    if isinstance(value, dict):
        return {name: _fill(one, named) for name, one in value.items()}
    return value


def _recipe(name: str, table: dict[str, Any]) -> Recipe:
    common = name, table["title"], table["about"]
    lines = rows(table["rows"])
    if "settings" in table:
        locality = table.get("locality")
        if locality:
            locality = Locality(rows(locality["rows"]), locality["layers"])
        return GenerationRecipe(*common, lines, Generation(**table["settings"]), locality)
    training = {data: Training(**one) for data, one in table["training"].items()}
    own = {row: Training(**one) for row, one in table.get("row_training", {}).items()}
    return ClassificationRecipe(
        *common,
        tuple(replace(row, training=own.get(row.name)) for row in lines),
        datasets=tuple(replace(NAMED[data], **other) for data, other in table["data"].items()),
        training={data: training[data] for data in table["data"]},
        regime=table.get("regime", "classification"),
    )


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipes in (
        classifiers.RECIPES,
        *(read_paper(FOLDER / f"{paper}.yaml") for paper in PAPERS),
        multi30k.RECIPES,
    )
    for recipe in recipes
}
