"""A file of per-sentence statistics, from which systems are compared later.

The file is JSON: ``{"test set": fingerprint, "metrics": {name: [[...], ...]}}``, numbers for each
sentence, as :class:`~fairseq_posattn.scoring.significance.Group` takes them.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json
from fairseq_posattn.scoring.bleu import bleu_metric, running_metrics
from fairseq_posattn.scoring.labels import CORRELATION, MACRO_F1, ROOT_OF_MEAN
from fairseq_posattn.scoring.significance import MEAN_OF_SENTENCES, Group, Statistics

__all__ = ["Kept", "fingerprint", "metric_of", "read_statistics", "write_statistics"]


@dataclass(frozen=True)
class Kept:
    """The statistics of a run.

    Attributes:
        test_set: the fingerprint of the references.
        metrics: by their names in ``posattn score --json``.
    """

    test_set: str
    metrics: Mapping[str, Statistics]


def write_statistics(path: Path, groups: Mapping[str, Group], references: Iterable[str]) -> None:
    """Write the file of a single run."""
    metrics = {name: group.runs[0] for name, group in groups.items()}
    content = {"test set": fingerprint(references), "metrics": metrics}
    write_json(path, content, separators=(",", ":"))


def fingerprint(references: Iterable[str]) -> str:
    """Return the fingerprint of a test set."""
    return hashlib.sha256("\n".join(references).encode()).hexdigest()


def read_statistics(path: Path) -> Kept:
    """Read a file of statistics; another format is a UsageError."""
    import numpy

    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        kept = Kept(str(content["test set"]), dict(content["metrics"]))
        shapes = [numpy.asarray(rows, dtype=float).shape for rows in kept.metrics.values()]
        (_,) = {sentences for sentences, _ in shapes}  # the same number for all metrics
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UsageError(f"{path}: not a file of --statistics; score the run again") from None
    return kept


def metric_of(name: str) -> Any:
    """Return the metric that computes a score from summed statistics."""
    known: dict[str, Any] = {"bleu": bleu_metric("sacrebleu"), **running_metrics()}
    known |= {"macro_f1": MACRO_F1, "rmse": ROOT_OF_MEAN}
    known |= {"pearson": CORRELATION, "spearman": CORRELATION}
    return known.get(name, MEAN_OF_SENTENCES)
