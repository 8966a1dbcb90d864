"""The recipes: a YAML file for each paper or study, read here.

In a file ``flags`` are named texts, inserted for ``$name`` in everything below; those of a table
replace them. ``training`` is by data set; ``settings`` are those of translation and summarization.
A line of a table's ``rows`` has a name, the paper's numbers, and the architecture with its flags,
or "lead N" or "rank BASELINE"; flags of its tiny form may follow. ``small`` has what differs with
``--small``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from string import Template
from typing import Any

from fairseq_posattn.common.files import read_table
from fairseq_posattn.preparation.corpora import CLASSIFICATION, RECOMMENDATION, TAGGING
from fairseq_posattn.preparation.corpus import FOLDS, ClassificationCorpus, TaggingCorpus
from fairseq_posattn.recipes.recipe import (
    ClassificationRecipe,
    Dataset,
    Generation,
    GenerationRecipe,
    Locality,
    Recipe,
    Training,
    rows,
)


def _dataset(corpus: Any, **more: Any) -> Dataset:
    common = corpus.name, corpus.metrics, corpus.task, corpus.criterion
    return Dataset(*common, licensed=corpus.licensed, **more)


def _classification(corpus: ClassificationCorpus) -> Dataset:
    longest = corpus.longest
    return _dataset(
        corpus,
        classes=corpus.num_classes,
        folds=FOLDS if corpus.cross_validated else 0,
        positions=f"--max-positions {longest} --shorten-method truncate" if longest else "",
        # The papers' code also trains on SST's phrases in five classes.
        preparation="--weighted-phrases" if corpus.name == "sst5" else "",
        columns=(*corpus.inputs, "label"),
        tiny="--head-dim 12 --pooling-queries 2 --ngram-buckets 64 --sentence-ends cue0",
    )


def _roles(corpus: TaggingCorpus) -> Dataset:
    tests = tuple(split for split in corpus.predicates if split.startswith("test"))
    others = tuple(f"{split}_" for split in tests[1:])
    prefixes = ("", *others, *(["valid_"] if others else []))  # as the paper has of CoNLL-2005
    scores = ("f1", "precision", "recall", "complete")
    dataset = _dataset(
        corpus,
        kind="tagging",
        columns=("words", "predicate", "tags"),
        tests=tests,
        features=100,
        tiny="--predicate-embed-dim 12 --encoder-layers 2 --lstm-layers 1",
    )
    metrics = tuple(prefix + score for prefix in prefixes for score in scores)
    return replace(dataset, metrics=metrics)


NEWS: dict[str, Any] = {"kind": "recommendation", "tiny": "--pooling-dim 12"}
NEWS["columns"] = ("history", "candidates", "labels")
DATASETS = {
    dataset.name: dataset
    for dataset in (
        *map(_classification, CLASSIFICATION.values()),
        *map(_roles, TAGGING.values()),
        *(_dataset(corpus, **NEWS) for corpus in RECOMMENDATION.values()),
    )
}


def read_paper(path: Path) -> Iterator[Recipe]:
    """Yield the recipes of a paper's file."""
    content = read_table(path)
    shared = {"training": content.get("training"), **content.get("shared", {})}
    for name, table in content["tables"].items():
        table = {**shared, **table, "flags": {**content["flags"], **table.get("flags", {})}}
        small = table.pop("small", None)
        name = name if "/" in name else f"{path.stem}/{name}"
        recipe = _recipe(name, table)
        if small:
            small = {**table, **small, "flags": {**table["flags"], **small["flags"]}}
            recipe = replace(recipe, small=_recipe(name, small))
        yield recipe


def _fill(value: Any, named: Mapping[str, str]) -> Any:
    """Return a value with the named texts inserted; lists become tuples."""
    if isinstance(value, str):
        return Template(value).substitute(named)
    if isinstance(value, list):
        return tuple(_fill(item, named) for item in value)
    if isinstance(value, dict):
        return {name: _fill(item, named) for name, item in value.items()}
    return value


def _recipe(name: str, table: dict[str, Any]) -> Any:
    named: dict[str, str] = {}
    for key, text in table["flags"].items():
        named[key] = Template(text).substitute(named)
    table = _fill(table, named)
    common = name, table["title"], table["about"]
    lines = rows(table["rows"])
    if "settings" in table:
        locality = table.get("locality")
        if locality:
            locality = Locality(rows(locality["rows"]), locality["layers"])
        settings = Generation(**table["settings"])
        return GenerationRecipe(*common, lines, settings, locality, table.get("prepares", False))
    training = {data: Training(**settings) for data, settings in table["training"].items()}
    of_rows = {row: Training(**settings) for row, settings in table.get("row_training", {}).items()}
    return ClassificationRecipe(
        *common,
        tuple(replace(row, training=of_rows.get(row.name)) for row in lines),
        datasets=tuple(replace(DATASETS[data], **more) for data, more in table["data"].items()),
        training={data: training[data] for data in table["data"]},
        regime=table.get("regime", "classification"),
    )


RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for path in sorted(Path(__file__).parent.glob("*.yaml"))
    for recipe in read_paper(path)
}
