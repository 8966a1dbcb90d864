"""The published data sets, one file for each publication."""

from importlib import import_module
from typing import Any


def _by_name(*modules: str) -> dict[str, Any]:
    loaded = [import_module(f"{__name__}.{module}") for module in modules]
    return {corpus.name: corpus for module in loaded for corpus in module.CORPORA}


TRANSLATION = _by_name("iwslt14", "wmt14", "multi30k", "tatoeba")
SUMMARIZATION = _by_name("cnn_dailymail", "gigaword")
CLASSIFICATION = _by_name("sst", "sentences", "documents", "sick", "snli")
TAGGING = _by_name("roles")
RECOMMENDATION = _by_name("mind")
