"""A run: one model, trained with one seed and measured; its commands and its folder."""

import hashlib
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.training import presets

# In a run's folder: what each sentence adds to its scores, and what a classifier predicted.
STATISTICS, PREDICTIONS = "statistics.json", "predictions-test.txt"
# Schedules of fairseq's that end where training does, unless this flag says where.
SCHEDULES = {"cosine": "--lr-period-updates", "polynomial_decay": "--total-num-update"}

Say = Callable[[str], None]  # tells whoever looks on


@dataclass(frozen=True)
class Step:
    """A command of a run.

    Attributes:
        name: train, average, generate, score, test, measure or rank.
        command: its words. The first is a program, "posattn" for the package's own.
        log: what it says goes into this file; None: it is shown.
        output: its standard output goes into this file, whole or not at all.
        needs: a file that must be there, which an earlier step makes.
        done: a file that is there once the step is done, if that is to be known.
    """

    name: str
    command: tuple[str, ...]
    log: Path | None = None
    output: Path | None = None
    needs: Path | None = None
    done: Path | None = None

    def is_among(self, steps: Sequence[str]) -> bool:
        """Whether ``--steps`` names it; measuring comes with scoring. No names are all."""
        named = "score" if self.name == "measure" else self.name
        return not steps or named in steps

    def shown(self) -> str:
        """As it can be typed."""
        target = f" > {shlex.quote(str(self.output))}" if self.output else ""
        return shlex.join(self.command) + target


@dataclass(frozen=True)
class Run:
    """A model of a row, trained with one seed.

    Attributes:
        name: for whoever looks on.
        folder: of its checkpoints, logs and results.
        settings: all that its result depends on, a line each: a name, a space, a value.
        steps: in their order.
        metric: what is scored, in words; empty where the metrics say it.
        updates, epochs: of training; one of these is 0.
        trial: it tries a learning rate; that it diverges is a result, and checkpoints are not kept.
    """

    name: str
    folder: Path
    settings: tuple[str, ...]
    steps: tuple[Step, ...]
    metric: str = ""
    updates: int = 0
    epochs: int = 0
    trial: bool = False

    @property
    def result(self) -> Path:
        """What it measured; once that is there the run is finished."""
        return self.folder / "result.json"

    @property
    def values(self) -> dict[str, str]:
        """Of the settings, by their names."""
        return dict(line.split(" ", 1) for line in self.settings)


def folder_name(flags: str, settings: Sequence[str]) -> str:
    """The name of a row's folder: to read, the flags that set it apart, and all it depends on.

    Args:
        flags: the row's.
        settings: all lines of :attr:`Run.settings` that are alike for its seeds and folds. What a
            machine does by chance, the number of its GPUs for one, is not among them.
    """
    words: list[str] = []
    flag = ""
    for word in [*shlex.split(flags), "--"]:
        if word.startswith("--"):
            words += [flag] if flag else []  # it has no value
            flag = word[2:]
        else:
            words.append(word)
            flag = ""
    fingerprint = hashlib.sha256("\n".join(settings).encode()).hexdigest()[:8]
    return "-".join([*words, fingerprint])


def preset_of(words: Sequence[str]) -> list[str]:
    """A line of :attr:`Run.settings`: what the architecture of a command line stands for today."""
    arch = words[words.index("--arch") + 1]
    options = presets.preset(arch)
    return [f"preset {json.dumps(options, sort_keys=True)}"] if options else []


def schedule_to_the_end(settings: Sequence[str]) -> str | None:
    """The schedule of learning rates, if it depends on how long is trained."""
    (flags,) = (line for line in settings if line.startswith("train "))
    words = flags.split()
    schedule = value_of(words, "--lr-scheduler")
    if schedule == "tri_stage":
        return schedule if value_of(words, "--phase-ratio") else None
    is_open = schedule in SCHEDULES and not value_of(words, SCHEDULES[schedule])
    return schedule if is_open else None


def value_of(words: Sequence[str], *flags: str) -> str:
    """What fairseq-train would take for a flag, by any of its names: the last; "" for none."""
    value = ""
    for previous, word in zip(["", *words], words, strict=False):
        name, _, own = word.partition("=")
        if previous in flags:
            value = word
        elif own and name in flags:
            value = own
    return value
