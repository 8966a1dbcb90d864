"""Measurements of a run, read from its logs and written to its ``result.json``."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_posattn import __version__
from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.files import read_limited, write_json
from fairseq_posattn.recipes.recipe import SUMMARY_SCORES
from fairseq_posattn.recipes.runs import Run
from fairseq_posattn.scoring.ranking import METRICS
from fairseq_posattn.text.manifest import LOWER_IS_BETTER
from fairseq_posattn.text.vocabulary import COVERAGE
from fairseq_posattn.training.training_log import Numbers, read_line, scores_of

PACKAGES = ["torch", "fairseq-fixed", "sacrebleu", "rouge-score", "sentencepiece", "numpy"]
Result = dict[str, Any]


def record(run: Run) -> str:
    """Write the ``result.json`` of a run whose steps are done; return a line about it."""
    log = Log(run.folder / "train.log") if (run.folder / "train.log").exists() else None
    settings = run.values
    if (run.folder / "ranking.json").exists():
        result = _ranked(run)
    elif (run.folder / "score.json").exists():
        result = _generated(run)
        if log is not None:
            result |= {"parameters": log.parameters(), "updates": log.updates()}
    else:
        result = _classified(run, log or Log(run.folder / "train.log"))
    if log is not None:
        result |= log.costs()
    if "train" in settings:
        flags = f" {settings['train']} {settings.get('precision', '')} "
        half = re.search(r" --(?:memory-efficient-)?(fp16|bf16|amp) ", flags)
        result["precision"] = half[1] if half else "fp32"
    result |= {"settings": settings, "commands": run.commands(), "versions": versions()}
    result["hardware"] = (log and log.gpus()) or processor()
    result["date"] = date.today().isoformat()
    write_json(run.result, result, indent=2)
    scores = ", ".join(f"{name} {value:g}" for name, value in result["scores"].items())
    return f"test: {scores}: {run.result}"


def _generated(run: Run) -> Result:
    scored = json.loads(read(run.folder / "score.json"))
    if missing := scored["counts"]["missing"]:
        lacks = f"lacks {counted(missing, 'hypothesis', 'hypotheses')}"
        raise UsageError(f"{run.folder} {lacks}; add --steps generate,score")
    details = ("signature", "signatures", "forms", "counts", "warnings")
    copied = {name: scored[name] for name in details if name in scored}
    return {"scores": scores_in(scored), "metric": run.metric, **copied}


def scores_in(scored: Mapping[str, Any]) -> dict[str, float]:
    """Return the scores in the output of posattn score, with the mean of three ROUGE.

    They have more decimals than tables show, so that means and deviations of runs are exact.
    """
    scores = {name: round(value, 4) for name, value in scored.items() if type(value) is float}
    if scores.keys() >= {*SUMMARY_SCORES}:
        scores["average"] = round(fmean(scored[name] for name in SUMMARY_SCORES), 4)
    for bucket in scored.get("by_length", {"buckets": ()})["buckets"]:
        named = bucket["scores"].items()
        scores |= {f"{name} {bucket['length']}": round(score["score"], 4) for name, score in named}
    return scores


def _classified(run: Run, log: "Log") -> Result:
    tested = Log(run.folder / "test.log").tested()
    if "test" not in tested:
        raise UsageError(f"{run.folder / 'test.log'} has no scores of fairseq-validate")
    scores = scores_of(tested["test"])
    for split in tested.keys() - {"test"}:
        scores |= {f"{split}_{name}": value for name, value in scores_of(tested[split]).items()}
    words, features = log.embeddings()
    parameters, train = log.parameters(), run.values["train"].split(" ")  # a value may be empty
    result: Result = {
        "scores": scores,
        "examples": {"train": _training_examples(run), "test": int(tested["test"]["bsz"])},
        **({"word vectors": features} if features else {}),
        **_coverage(value_of(train, "--encoder-embed-path")),
        "validation": _best(log, value_of(train, "--best-checkpoint-metric")),
        "parameters": parameters,
        "parameters without word vectors": parameters - words * features,
        "updates": log.updates(),
    }
    if seconds := log.seconds_an_epoch(complete=bool(run.epochs)):
        result["epoch_s"] = round(seconds, 2)
    return result


def _coverage(vectors: str) -> Result:
    """Return the share of the training text's running words that had one of the vectors."""
    path = Path(vectors).with_name(COVERAGE) if vectors else None
    if path is None or not path.exists():
        return {}
    return {"words with a vector": json.loads(read(path))["running words"]}


def _ranked(run: Run) -> Result:
    """Return the result of a baseline, which has no parameters."""
    measured = json.loads(read(run.folder / "ranking.json"))
    test = measured["scored"] + measured["skipped"]
    return {
        "scores": {name: measured[name] for name in (*METRICS, "skipped")},
        "metric": "test set, nothing is trained",
        "examples": {"train": _training_examples(run), "test": test},
        **dict.fromkeys(("parameters", "parameters without word vectors"), 0),
    }


def _training_examples(run: Run) -> int | None:
    """Return the size of the training set; None if its text is missing."""
    columns = ("label", "tags", "labels")
    texts = [Path(run.values["data"], "text", f"train.{column}") for column in columns]
    return next((len(read(text).splitlines()) for text in texts if text.exists()), None)


def _best(log: "Log", metric: str) -> Result:
    """Return epoch, updates and metrics of the validation that chose the best checkpoint."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    # An equal later value replaces fairseq's best checkpoint.
    best = max(reversed(log.saved()), key=lambda numbers: sign * numbers[metric])
    epoch, updates = int(best["epoch"]), int(best["num_updates"])
    return {"epoch": epoch, "updates": updates, "scores": scores_of(best)}


class Log:
    """A log of fairseq: its JSON lines, and text where there is no JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = read(path)
        self._lines = [line for text in self._text.splitlines() if (line := read_line(text))]

    def measured(self, tag: str) -> list[Numbers]:
        """Return the numbers of each "valid", "test", ... in order."""
        return [numbers for name, numbers in self._lines if name == tag]

    def saved(self) -> list[Numbers]:
        """Return the validations after which checkpoints were saved; all, if none is known."""
        updates = set(map(float, re.findall(r"\(epoch \d+ @ (\d+) updates, score", self._text)))
        measured = self.measured("valid")
        return [numbers for numbers in measured if numbers["num_updates"] in updates] or measured

    def tested(self) -> dict[str, Numbers]:
        return dict(self._lines)

    def updates(self) -> int:
        return int(max((numbers.get("num_updates", 0) for _, numbers in self._lines), default=0))

    def seconds_an_epoch(self, complete: bool) -> float | None:
        """Return the mean training time of an epoch, without validation; None without an epoch.

        ``complete``: the last epoch was trained to its end.
        """
        seconds, updates, previous = 0.0, [], (0, 0)
        for numbers in self.measured("train"):
            epoch, reached = int(numbers["epoch"]), int(numbers["num_updates"])
            if epoch == previous[0] + 1:  # skips epochs of an interrupted or shorter run
                seconds += numbers["train_wall"]
                updates.append(reached - previous[1])
            previous = (epoch, reached)
        if not updates or (len(updates) == 1 and not complete):
            return None
        return seconds / sum(updates) * max(updates)  # the last epoch may be incomplete

    def costs(self) -> dict[str, float]:
        """Return hours of training with validation, and the most GB of GPU memory, if known."""
        walls = [numbers["wall"] for _, numbers in self._lines if "wall" in numbers]
        free = [numbers["gb_free"] for _, numbers in self._lines if "gb_free" in numbers]
        costs = {"hours": round(max(walls) / 3600, 4)} if walls else {}
        if free:
            total = float(self._last(r"total memory = ([\d.]+) GB")[0])
            costs["gpu_memory_gb"] = round(total - min(free), 1)
        return costs

    def parameters(self) -> int:
        return int(self._last(r"num\. shared model params: ([\d,]+)")[0].replace(",", ""))

    def embeddings(self) -> tuple[int, int]:
        """Return the number of word vectors and of their features; 0 for a user's other modules."""
        named = re.findall(r"\(embed_tokens\): Embedding\((\d+), (\d+)", self._text)
        words, features = named[-1] if named else (0, 0)
        return int(words), int(features)

    def gpus(self) -> str | None:
        """Return the GPUs on which fairseq-train reports to train, on all machines."""
        names = re.findall(r"capabilities = .* ; name = (.*?) *$", self._text, re.MULTILINE)
        if not names:
            return None
        (count,) = self._last(r"training on (\d+) devices")
        return f"{count} x {names[-1]}"

    def _last(self, pattern: str) -> tuple[str, ...]:
        """Return the groups of a pattern's last match."""
        matches = list(re.finditer(pattern, self._text))
        if not matches:
            raise UsageError(f"{self._path} is incomplete: it has no {pattern!r}")
        return matches[-1].groups()


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python and of the important packages."""
    numbers = {"fairseq_posattn": _commit() or __version__, "python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            numbers[package] = version(package)
    return numbers


def _commit() -> str | None:
    """Return this checkout's commit, "-dirty" if it was changed; None without git."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    with suppress(FileNotFoundError):
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    return None


def processor() -> str:
    name = platform.processor() or platform.machine()
    with suppress(OSError):
        match = re.search(r"model name\s*: (.*)", read(Path("/proc/cpuinfo")))
        name = match[1] if match else name
    return f"CPU: {name}, {os.cpu_count()} cores"


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")  # a full disk cuts characters


def read_object(path: Path) -> dict[str, Any]:
    reason = "it has no JSON object"
    try:
        content = json.loads(read_limited(path))
    except (ValueError, RecursionError) as error:
        content, reason = None, str(error).split(";")[0]
    if not isinstance(content, dict):
        raise UsageError(f"{path} is no result of a recipe: {reason}")
    return content
