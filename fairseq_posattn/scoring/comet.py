"""COMET of translations (Rei et al., 2020, 2022), by the optional package unbabel-comet."""

import sys
from collections.abc import Sequence
from functools import cache
from importlib.metadata import version
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.outputs import Pairs

__all__ = ["comet_of_each", "signature"]

MODEL = "Unbabel/wmt22-comet-da"


def comet_of_each(runs: Sequence[Pairs], sources: Sequence[str], name: str) -> list[list[float]]:
    """Return the score of every sentence of every run of detokenized text, in percent.

    Raises:
        UsageError: unbabel-comet is not installed, or has no model ``name``.
    """
    model = _model(name)
    gpus = int(sys.modules["torch"].cuda.is_available())  # comet has imported torch
    scores = []
    for run in runs:
        triples = zip(sources, run.hypotheses, run.references, strict=True)
        data = [dict(zip(("src", "mt", "ref"), triple, strict=True)) for triple in triples]
        scored = model.predict(data, batch_size=16, gpus=gpus)
        scores.append([100 * float(score) for score in scored.scores])
    return scores


@cache
def _model(name: str) -> Any:
    try:
        import comet
    except ImportError as error:
        raise UsageError(
            f"--comet: {error.name or error} is not installed; pip install unbabel-comet"
        ) from None
    try:
        return comet.load_from_checkpoint(comet.download_model(name))
    except (KeyError, OSError, ValueError) as error:
        raise UsageError(f"--comet-model {name}: {error}".splitlines()[0]) from None


def signature(name: str) -> str:
    return f"comet|model:{name}|version:{version('unbabel-comet')}"
