"""What a run measured, and how: read from its logs and kept in its ``result.json``."""

import json
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json
from fairseq_posattn.recipes.classification import LOWER_IS_BETTER
from fairseq_posattn.recipes.log import Log
from fairseq_posattn.recipes.options import PRECISIONS
from fairseq_posattn.recipes.provenance import processor, versions
from fairseq_posattn.recipes.recipe import SUMMARY_SCORES
from fairseq_posattn.recipes.runs import Run, value_of
from fairseq_posattn.scoring.ranking import METRICS
from fairseq_posattn.training.training_log import scores_of

LARGEST = 1 << 24  # bytes of a result
Result = dict[str, Any]


def record(run: Run) -> str:
    """Write the ``result.json`` of a run whose steps are done; returns a line to read.

    Raises:
        UsageError: a log lacks what it should have; the message names it.
    """
    log = Log(run.folder / "train.log") if (run.folder / "train.log").exists() else None
    if (run.folder / "ranking.json").exists():
        result, told = _ranked(run)
    elif (run.folder / "score.json").exists():
        result, told = _generated(run)
        if log is not None:
            result |= {"parameters": log.parameters(), "updates": log.updates()}
    else:
        result, told = _classified(run, log or Log(run.folder / "train.log"))
    if "train" in run.values:
        result["precision"] = _precision(run.values)
    result |= {
        "settings": run.values,
        "versions": versions(),
        "hardware": (log and log.gpus()) or processor(),
        "date": date.today().isoformat(),
    }
    write_json(run.result, result, indent=2)
    return f"{told}: {run.result}"


def _precision(settings: Mapping[str, str]) -> str:
    """Return the number format of a training, by the flags of fairseq-train."""
    words = f"{settings['train']} {settings.get('precision', '')}".split()
    return next((name for name in PRECISIONS if f"--{name}" in words), "fp32")


def _generated(run: Run) -> tuple[Result, str]:
    scored = json.loads(read(run.folder / "score.json"))
    if missing := scored["counts"]["missing"]:
        raise UsageError(
            f"{run.folder}: {missing:,} of the hypotheses are missing: "
            "it was not generated to the end"
        )
    details = ("signature", "signatures", "forms", "counts", "warnings")
    scores = {name: round(found, 2) for name, found in scored.items() if type(found) is float}
    if scores.keys() >= {*SUMMARY_SCORES}:
        scores["average"] = round(fmean(scored[name] for name in SUMMARY_SCORES), 2)
    result = {
        "scores": scores,
        "metric": run.metric,
        **{name: scored[name] for name in details if name in scored},
    }
    told = ", ".join(f"{name} {score:.2f}" for name, score in scores.items())
    return result, f"{told} ({run.metric}, {scored['signature']})"


def _classified(run: Run, log: Log) -> tuple[Result, str]:
    tested = Log(run.folder / "test.log").tested()
    if "test" not in tested:
        raise UsageError(f"{run.folder / 'test.log'}: fairseq-validate measured nothing")
    scores = scores_of(tested["test"])
    for split in tested.keys() - {"test"}:
        scores |= {f"{split}_{name}": value for name, value in scores_of(tested[split]).items()}
    words, features = log.embeddings()
    parameters = log.parameters()
    result = {
        "scores": scores,
        "examples": {
            "train": _examples(Path(run.values["data"])),
            "test": int(tested["test"]["bsz"]),
        },
        "word vectors": features,
        "validation": _best(log, run.values["train"].split()),
        "parameters": parameters,
        "parameters without word vectors": parameters - words * features,
        "updates": log.updates(),
    }
    if seconds := log.seconds_an_epoch(whole=bool(run.epochs)):
        result["epoch_s"] = round(seconds, 2)
    told = ", ".join(f"{name} {value:g}" for name, value in scores.items())
    return result, f"test: {told}"


def _ranked(run: Run) -> tuple[Result, str]:
    """Of a baseline, which has no parameters."""
    found = json.loads(read(run.folder / "ranking.json"))
    scores = {name: found[name] for name in (*METRICS, "skipped")}
    result = {
        "scores": scores,
        "metric": "test set, nothing is trained",
        "examples": {
            "train": _examples(Path(run.values["data"])),
            "test": found["scored"] + found["skipped"],
        },
        "parameters": 0,
        "parameters without word vectors": 0,
    }
    return result, "test: " + ", ".join(f"{name} {value:g}" for name, value in scores.items())


def _examples(data: Path) -> int | None:
    """How many there are in the training set; None if its text is not there."""
    for column in ("label", "tags", "labels"):
        text = data / "text" / f"train.{column}"
        if text.exists():
            return len(read(text).splitlines())
    return None


def _best(log: Log, flags: Sequence[str]) -> Result:
    """Epoch, updates and metrics of the validation at which the best checkpoint was written."""
    metric = value_of(flags, "--best-checkpoint-metric")
    sign = -1 if metric in LOWER_IS_BETTER else 1
    # fairseq writes it again when the best value comes again.
    best = max(reversed(log.measured("valid")), key=lambda numbers: sign * numbers[metric])
    return {
        "epoch": int(best["epoch"]),
        "updates": int(best["num_updates"]),
        "scores": scores_of(best),
    }


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that a recipe kept in a file.

    Raises:
        UsageError: it holds something else.
    """
    if path.exists() and not (path.is_file() and path.stat().st_size <= LARGEST):
        raise UsageError(
            f"{path} is no result of a recipe: it is no file of at most {LARGEST:,} bytes"
        )
    try:
        found = json.loads(read(path))
    except (ValueError, RecursionError) as error:
        reason = str(error).split(";")[0]
        raise UsageError(f"{path} is no result of a recipe: {reason}") from None
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no result of a recipe: it is {type(found).__name__}")
    return found
