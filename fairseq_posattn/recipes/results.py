"""What a run measured, and how: read from its logs and kept in its ``result.json``."""

import json
import os
import platform
import re
import subprocess
from collections.abc import Sequence
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import Any

from fairseq_posattn import __version__
from fairseq_posattn.errors import UsageError
from fairseq_posattn.files import write_json
from fairseq_posattn.recipes.classification import LOWER_IS_BETTER
from fairseq_posattn.recipes.recipe import SUMMARY_SCORES
from fairseq_posattn.recipes.runs import Run
from fairseq_posattn.scoring.ranking import METRICS
from fairseq_posattn.training_log import Numbers, read_line, scores_of

PACKAGES = ["torch", "fairseq-fixed", "sacrebleu", "rouge-score", "sentencepiece", "numpy"]
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
    result |= {
        "settings": dict(line.split(" ", 1) for line in run.settings),
        "versions": versions(),
        "hardware": (log and log.gpus()) or processor(),
        "date": date.today().isoformat(),
    }
    write_json(run.result, result, indent=2)
    return f"{told}: {run.result}"


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


def _classified(run: Run, log: "Log") -> tuple[Result, str]:
    tested = Log(run.folder / "test.log").tested()
    if "test" not in tested:
        raise UsageError(f"{run.folder / 'test.log'}: fairseq-validate measured nothing")
    scores = scores_of(tested["test"])
    for split in tested.keys() - {"test"}:
        scores |= {f"{split}_{name}": value for name, value in scores_of(tested[split]).items()}
    settings = dict(line.split(" ", 1) for line in run.settings)
    words, features = log.embeddings()
    parameters = log.parameters()
    result = {
        "scores": scores,
        "examples": {
            "train": _examples(Path(settings["data"])),
            "test": int(tested["test"]["bsz"]),
        },
        "word vectors": features,
        "validation": _best(log, settings["train"].split()),
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
    settings = dict(line.split(" ", 1) for line in run.settings)
    result = {
        "scores": scores,
        "metric": "test set, nothing is trained",
        "examples": {
            "train": _examples(Path(settings["data"])),
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


def _best(log: "Log", flags: Sequence[str]) -> Result:
    """Epoch, updates and metrics of the validation at which the best checkpoint was written."""
    metric = flags[flags.index("--best-checkpoint-metric") + 1]
    sign = -1 if metric in LOWER_IS_BETTER else 1
    # fairseq writes it again when the best value comes again.
    best = max(reversed(log.measured("valid")), key=lambda numbers: sign * numbers[metric])
    return {
        "epoch": int(best["epoch"]),
        "updates": int(best["num_updates"]),
        "scores": scores_of(best),
    }


class Log:
    """What fairseq wrote; where it has no JSON for something, the line that says it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = read(path)
        self._lines = [found for line in self._text.splitlines() if (found := read_line(line))]

    def measured(self, what: str) -> list[Numbers]:
        """The numbers of each "valid", "test", ... in their order."""
        return [numbers for tag, numbers in self._lines if tag == what]

    def tested(self) -> dict[str, Numbers]:
        """Of a test, the numbers of each split, whose batches have one line together."""
        return dict(self._lines)

    def updates(self) -> int:
        """How many there were."""
        return int(max((numbers.get("num_updates", 0) for _, numbers in self._lines), default=0))

    def seconds_an_epoch(self, whole: bool) -> float | None:
        """The mean time of training an epoch, without validation; None if there was no whole one.

        Args:
            whole: the last one was trained to its end.
        """
        seconds, updates, before = 0.0, [], (0, 0)
        for numbers in self.measured("train"):
            epoch, reached = int(numbers["epoch"]), int(numbers["num_updates"])
            if epoch == before[0] + 1:  # not what another run trained, on which this one went on
                seconds += numbers["train_wall"]
                updates.append(reached - before[1])
            before = (epoch, reached)
        if not updates or (len(updates) == 1 and not whole):
            return None
        return seconds / sum(updates) * max(updates)  # the last epoch may be a part of one

    def parameters(self) -> int:
        return int(self._last(r"num\. shared model params: ([\d,]+)")[0].replace(",", ""))

    def embeddings(self) -> tuple[int, int]:
        """The number of words and the features of their vectors."""
        words, features = self._last(r"\(embed_tokens\): Embedding\((\d+), (\d+)")
        return int(words), int(features)

    def gpus(self) -> str | None:
        """The GPUs that fairseq-train says that it trained on, on whatever machines."""
        names = re.findall(r"capabilities = .* ; name = (.*?) *$", self._text, re.MULTILINE)
        if not names:
            return None
        devices = self._last(r"training on (\d+) devices")[0]
        return f"{devices} x {names[-1]}"

    def _last(self, pattern: str) -> tuple[str, ...]:
        """What a pattern's groups match, where it matches last."""
        found = list(re.finditer(pattern, self._text))
        if not found:
            raise UsageError(f"{self._path} is not a whole log: it has no {pattern!r}")
        return found[-1].groups()


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


def versions() -> dict[str, str]:
    """Of this checkout or package, of Python and of the packages that matter."""
    found = {"fairseq_posattn": _commit() or __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _commit() -> str | None:
    """The commit of this checkout, "-dirty" where it was changed since; None if it is none."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip() or None
    except FileNotFoundError:
        return None


def processor() -> str:
    """The processor of this machine."""
    name = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        found = re.search(r"model name\s*: (.*)", read(Path("/proc/cpuinfo")))
        name = found[1] if found else name
    return f"CPU: {name}, {os.cpu_count()} cores"
