"""What fairseq writes while it trains and validates: losses, scores and learning rates.

Lines of ``--log-format json`` and of ``simple``, which is also what stays of ``tqdm`` in a file,
with the heads of fairseq-train and of fairseq-hydra-train, or with none, as in a ``--log-file``.
"""

import json
import re
from math import isfinite, nan
from pathlib import Path

from fairseq_posattn.common.errors import UsageError

Numbers = dict[str, float]
Points = list[tuple[int, float]]

BOOKKEEPING = {"epoch", "wps", "wpb", "bsz", "num_updates", "ups", "wall", "train_wall"}
LOSSES = {"loss", "nll_loss"}
TAGS = ("train_inner", "train", "valid")
LONGEST = 1 << 20  # characters of a line
LARGEST = 1e100  # that a picture has room for

_TEXT = re.compile(r'\{"|epoch \d+(?: \||:)')
_TAG = re.compile(r"(?: \| |\]\[)(\w+)(?: \| |\]\[INFO\] - )$")
_EPOCH = re.compile(r"epoch (\d+)(?::\s+(\d+) / (\d+))?")
_PAIR = re.compile(r"(?: \| (\w+) |[ ,](\w+)=)([^ ,|]+)(?=,| \||$)")


def read_line(line: str) -> tuple[str, Numbers] | None:
    """What a line of a log measures, and the numbers by name; None if it measures nothing.

    ``... | INFO | valid | {"epoch": 1, "valid_loss": "2"}`` is ("valid", {"epoch": 1, "loss": 2}).
    """
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
    named = tag[1] if tag else _tag_of(numbers, line)
    return named, {name.removeprefix(f"{named}_"): number for name, number in numbers.items()}


def _numbers(text: str) -> Numbers:
    try:
        if text.startswith("{"):
            found = json.loads(text).items()
            return {name: float(number) for name, number in found if number is not None}
        epoch = _EPOCH.match(text)
        assert epoch is not None
        numbers = {"epoch": float(epoch[1])}
        if epoch[2]:
            numbers["update"] = numbers["epoch"] - 1 + int(epoch[2]) / int(epoch[3])
        pairs = [(first or second, number) for first, second, number in _PAIR.findall(text)]
        measured = {name: float(number) for name, number in pairs if number != "None"}
        return numbers | measured if measured else {}
    # Some other line, or the last one of a process that was killed
    except (ValueError, TypeError, ArithmeticError, RecursionError):
        return {}


def _tag_of(numbers: Numbers, line: str) -> str:
    """Of a line without a head."""
    if "update" in numbers:
        return "train_inner"
    return "valid" if "valid_loss" in numbers or " | valid on " in line else "train"


def scores_of(numbers: Numbers) -> Numbers:
    """Losses and metrics among the numbers of a line."""
    return {
        name: number
        for name, number in numbers.items()
        if name not in BOOKKEEPING and not name.startswith("best_")
    }


class TrainingLog:
    """A training from its beginning to its end.

    Where it went on from a checkpoint, what was trained after that checkpoint and then lost is not
    in it.

    Args:
        path: a log, which may have several parts.

    Raises:
        UsageError: it has a line that is too long to be text.
    """

    def __init__(self, path: Path) -> None:
        self._lines: dict[str, list[Numbers]] = {tag: [] for tag in TAGS}
        with open(path, encoding="utf-8", errors="replace") as file:
            while line := file.readline(LONGEST):
                if len(line) == LONGEST:
                    raise UsageError(f"{path} is no log: a line has {LONGEST:,} characters or more")
                found = read_line(line)
                if found and found[0] in TAGS and isfinite(found[1].get("num_updates", nan)):
                    self._add(*found)

    def _add(self, tag: str, numbers: Numbers) -> None:
        now = numbers["num_updates"]
        for other, lines in self._lines.items():
            while lines and (lines[-1]["num_updates"], other == tag) >= (now, True):
                lines.pop()
        self._lines[tag].append(numbers)

    def points(self, name: str, *tags: str) -> Points:
        """What was measured by the update, of the first of these tags that has the most.

        Args:
            name: "loss", "lr", "accuracy"...
            tags: "train_inner" each ``--log-interval`` updates, "train" each epoch, "valid".
        """
        found = [
            [
                (int(numbers["num_updates"]), numbers[name])
                for numbers in self._lines[tag]
                if abs(numbers.get(name, nan)) < LARGEST
            ]
            for tag in tags
        ]
        return max(found, key=len)

    def score(self) -> str | None:
        """The metric of validation that is to be looked at beside the loss.

        The one by which the best checkpoint is chosen, the first that there is, or perplexity; None
        where there was no validation.
        """
        named = dict.fromkeys(name for numbers in self._lines["valid"] for name in numbers)
        chosen = [name.removeprefix("best_") for name in named if name.startswith("best_")]
        scores = [*chosen, *scores_of(dict.fromkeys(named, 0.0))]
        others = [name for name in scores if name not in LOSSES and name != "ppl"]
        return others[0] if others else ("ppl" if "ppl" in named else None)
