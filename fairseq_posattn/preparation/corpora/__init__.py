"""The published data sets, one file for each publication."""

from importlib import import_module


def _by_name(*modules):
    modules = [import_module(f"{__name__}.{module}") for module in modules]
    return {corpus.name: corpus for module in modules for corpus in module.CORPORA}


TRANSLATION = _by_name("iwslt14", "wmt14", "multi30k")
SUMMARIZATION = _by_name("cnn_dailymail", "gigaword")
CLASSIFICATION = _by_name("sst", "sentences", "documents", "snli")
TAGGING = _by_name("roles")
RECOMMENDATION = _by_name("mind")
