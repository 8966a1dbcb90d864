"""The published data sets: published.yaml describes them, the modules read them."""

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any

from fairseq_posattn.preparation import corpus
from fairseq_posattn.preparation.download import FILES, TABLES

FUNCTIONS = ("read", "write", "settings", "add_options", "changes", "splits")


def _read(kind: str, build: type[Any]) -> dict[str, Any]:
    corpora = {}
    for name, row in TABLES[kind].items():
        row = {key: tuple(cell) if isinstance(cell, list) else cell for key, cell in row.items()}
        for key in FUNCTIONS & row.keys():
            module, _, function = row[key].partition(".")
            row[key] = getattr(import_module(f"{__name__}.{module}"), function)
        row["read"] = partial(row["read"], **row.pop("arguments", {}))
        files = row.pop("files", ())
        row["alternatives"] = tuple(tuple(FILES[file] for file in names) for names in files)
        if changed := row.pop("changed", {}):
            row["changes"] = partial(_changes, changed)
        corpora[name] = build(name=name, **row)
    return corpora


def _changes(changed: Mapping[str, dict[str, Any]], options: Namespace) -> dict[str, Any]:
    """Return the attributes that the given flags change."""
    result: dict[str, Any] = {}
    for flag, attributes in changed.items():
        if getattr(options, flag[2:].replace("-", "_")):
            result |= attributes
    return result


TRANSLATION = _read("translation", corpus.TranslationCorpus)
SUMMARIZATION = _read("summarization", corpus.SummarizationCorpus)
CLASSIFICATION = _read("classification", corpus.ClassificationCorpus)
TAGGING = _read("tagging", corpus.TaggingCorpus)
RECOMMENDATION = _read("recommendation", corpus.RecommendationCorpus)
