"""Reader of logs of fairseq-train and -hydra-train, in the formats json, simple and tqdm."""

import json
import re
from math import isfinite, nan
from pathlib import Path

Numbers = dict[str, float]
Points = list[tuple[int, float]]

BOOKKEEPING = {"epoch", "wps", "wpb", "bsz", "num_updates", "ups", "wall", "train_wall"}
LOSSES = {"loss", "nll_loss"}
TAGS = ("train_inner", "train", "valid")
MAX_VALUE = 1e100  # larger values are not plotted

# A logger's warning, or one of Python's module warnings. Those about deprecated code concern its
# authors, not users.
_WARNING = re.compile(
    r"(?: \| (?:WARNING|ERROR|CRITICAL) \| \S+ \| |\[(?:WARNING|ERROR)\] - |^\S+:\d+: \w*Warning: )"
    r"(?!.*deprecated)(.*)"
)
_TEXT = re.compile(r'\{"|epoch \d+(?: \||:)')
_TAG = re.compile(r"(?: \| |\]\[)(\w+)(?: \| |\]\[INFO\] - )$")
_EPOCH = re.compile(r"epoch (\d+)(?::\s+(\d+) / (\d+))?")
_PAIR = re.compile(r"(?: \| (\w+) |[ ,](\w+)=)([^ ,|]+)(?=,| \||$)")


def read_line(line: str) -> tuple[str, Numbers] | None:
    """Return kind and numbers by name, ``("valid", {"loss": 2})``; None without measurements."""
    line = line.rstrip()
    text = _TEXT.search(line)
    if text is None:
        return None
    tag = _TAG.search(line, 0, text.start())
    if text.start() and tag is None:
        return None
    numbers = _numbers(line[text.start() :])
    if not numbers:
        return None
    named = "valid" if "valid_loss" in numbers or " | valid on " in line else "train"
    if tag or "update" in numbers:
        named = tag[1] if tag else "train_inner"
    return named, {name.removeprefix(f"{named}_"): number for name, number in numbers.items()}


def warning_of(line: str) -> str:
    """Return the message of a line that warns users; "" for any other line."""
    match = _WARNING.search(line)
    return match[1].strip() if match else ""


def _numbers(text: str) -> Numbers:
    try:
        if text.startswith("{"):
            items = json.loads(text).items()
            return {name: float(number) for name, number in items if number is not None}
        epoch = _EPOCH.match(text)
        assert epoch is not None
        numbers = {"epoch": float(epoch[1])}
        if epoch[2]:
            numbers["update"] = numbers["epoch"] - 1 + int(epoch[2]) / int(epoch[3])
        pairs = [(first or second, number) for first, second, number in _PAIR.findall(text)]
        measured = {name: float(number) for name, number in pairs if number != "None"}
        return numbers | measured if measured else {}
    # Another line, or the truncated last line of a killed process
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return {}


def scores_of(numbers: Numbers) -> Numbers:
    """Return the losses and metrics among the numbers of a line."""
    names = [name for name in numbers if name not in BOOKKEEPING and name[:5] != "best_"]
    return {name: numbers[name] for name in names}


class TrainingLog:
    """Measurements of a training from its log; those of updates lost by resuming are dropped."""

    def __init__(self, path: Path) -> None:
        self._lines: dict[str, list[Numbers]] = {tag: [] for tag in TAGS}
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                result = read_line(line)
                if result and result[0] in TAGS and isfinite(result[1].get("num_updates", nan)):
                    self._add(*result)

    def _add(self, tag: str, numbers: Numbers) -> None:
        now = numbers["num_updates"]
        for other, lines in self._lines.items():
            while lines and (lines[-1]["num_updates"], other == tag) >= (now, True):
                lines.pop()
        self._lines[tag].append(numbers)

    def points(self, name: str, *tags: str) -> Points:
        """Return (update, value) pairs, by ``name`` such as "lr", of the tag with the most.

        Tags are "train_inner" every ``--log-interval`` updates, "train" every epoch, and "valid".
        """
        points: Points = []
        for tag in tags:
            lines = [n for n in self._lines[tag] if abs(n.get(name, nan)) < MAX_VALUE]
            if len(lines) > len(points):
                points = [(int(numbers["num_updates"]), numbers[name]) for numbers in lines]
        return points

    def score(self) -> str | None:
        """Return the metric of the best checkpoint, else the first, else perplexity, or None."""
        named = dict.fromkeys(name for numbers in self._lines["valid"] for name in numbers)
        chosen = [name.removeprefix("best_") for name in named if name.startswith("best_")]
        scores = [*chosen, *scores_of(dict.fromkeys(named, 0.0))]
        others = [name for name in scores if name not in LOSSES and name != "ppl"]
        return others[0] if others else ("ppl" if "ppl" in named else None)
