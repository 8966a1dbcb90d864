"""A run: one model trained with one seed and measured; its commands, folder and data."""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath, files_in, write_text
from fairseq_posattn.text.vocabulary import VECTORS
from fairseq_posattn.training import presets

# Files in a run's folder: outputs and sentence statistics of a generation, predictions of a
# classifier, scores of a ranking.
OUTPUT, STATISTICS = "generate-test.txt", "statistics.json"
PREDICTIONS, RANKING = "predictions-test.txt", "scores.tsv"
LAST = "checkpoint_last.pt"
LOCK = ".recipe.lock"  # not .lock, which training has: on NFS flock and fcntl's locks conflict
FINGERPRINT = "data-fingerprint"
BINARIZED = ("*.bin", "*.idx", "dict*.txt")
KINDS = (*BINARIZED, "label/*.label")  # the last has the scores of regression
LARGEST = 1 << 24  # bytes of a file that the fingerprint reads
# fairseq's schedules that end with the training, unless this flag gives their end.
SCHEDULES = {"cosine": "--lr-period-updates", "polynomial_decay": "--total-num-update"}
_LENGTH = re.compile(r"(?<= --max-update )\d+|(?<= --max-epoch )\d+")

Say = Callable[[str], None]  # prints a line of progress


@dataclass(frozen=True)
class Step:
    """A command of a run."""

    name: str  # train, average, generate, score, test, measure or rank
    command: tuple[str, ...]  # the first word is a program; "posattn" is the package's command
    log: Path | None = None  # file for all output; None shows it
    output: Path | None = None  # file for standard output, written whole or not at all
    needs: Path | None = None  # file of an earlier step that must exist
    done: Path | None = None  # exists once the step is done; None if that cannot be known

    def is_among(self, steps: Sequence[str]) -> bool:
        """Return whether ``--steps`` selects it; "score" includes measuring, none selects all."""
        return not steps or ("score" if self.name == "measure" else self.name) in steps

    def shown(self) -> str:
        target = f" > {shlex.quote(str(self.output))}" if self.output else ""
        return shlex.join(self.command) + target


@dataclass(frozen=True)
class Run:
    """A row's model, trained with one seed."""

    name: str  # shown in progress lines
    folder: Path  # of checkpoints, logs and results
    settings: tuple[str, ...]  # all its result depends on; a line is a name, a space and a value
    steps: tuple[Step, ...]  # in order
    metric: str = ""  # description of the score; empty if the metric names suffice
    updates: int = 0  # length of training in updates or epochs; one of them is 0
    epochs: int = 0
    after: tuple["Run", ...] = ()  # jobs that end before its own begins
    trial: bool = False  # of a learning rate: divergence is a result, checkpoints are deleted
    hidden: tuple[str, ...] = ()  # beginnings of warnings about flags that the recipe gives

    @property
    def result(self) -> Path:
        """Return the file of its measurements, which exists once the run is finished."""
        return self.folder / "result.json"

    @property
    def values(self) -> dict[str, str]:
        return dict(line.split(" ", 1) for line in self.settings)

    def commands(self) -> list[str]:
        """Return the command lines of the run and of all before it."""
        before = [command for run in self.after for command in run.commands()]
        return list(dict.fromkeys([*before, *(step.shown() for step in self.steps)]))

    def start(self) -> None:
        """Write the settings and the data's fingerprint into the folder of a new run."""
        if not (self.folder / "settings").exists():
            write_text(self.folder / FINGERPRINT, self._fingerprint())
            write_text(self.folder / "settings", "".join(f"{line}\n" for line in self.settings))

    def has_same_data(self, folder: Path) -> bool:
        """Return whether a run's folder has this run's data fingerprint, or none."""
        written = folder / FINGERPRINT
        # Those of older versions have no scores of regression, or sizes alone.
        known = (self._fingerprint(*form) for form in ((), (LARGEST, BINARIZED), (0, BINARIZED)))
        return not written.exists() or written.read_text() in known

    def require_same_data(self) -> None:
        """Raise UsageError if the data was replaced since the run started."""
        if not self.has_same_data(self.folder):
            other = f"other data than {self.values['data']} has now"
            raise UsageError(
                f"{self.folder} was trained on {other}: give another --out, or remove this folder"
            )

    def require_same_code(self) -> None:
        """Raise UsageError if a file of ``user_dir`` is not that of the run's settings."""
        folder, _, code = self.values.get("user-dir", "").rpartition(" ")
        if folder and code_in(folder) != code:
            fix = "restore its files, or start the command again for runs with the new ones"
            raise UsageError(f"user_dir {folder} has changed since the command began; {fix}")

    def _fingerprint(self, most: int = LARGEST, kinds: Sequence[str] = KINDS) -> str:
        """Return a hash of the dictionaries, and of other files' names, sizes and first bytes."""
        data = Path(self.values["data"])
        paths = (path for kind in kinds for path in data.rglob(kind))
        files = [path for path in paths if not _is_in_run(path)]
        files += filter(Path.exists, (data / VECTORS, data.parent / VECTORS))  # folds share these
        return digest_of(files, data, most)

    def shorter_runs(self) -> list[tuple[int, Path]]:
        """Return length and folder of each run that differs only by a shorter training."""
        settings, length = _without_length("\n".join(self.settings))
        runs = []
        for path in self.folder.parents[1].glob(f"*/{self.folder.name}/settings"):
            lines, shorter = _without_length(path.read_text(encoding="utf-8").rstrip("\n"))
            if lines == settings and shorter < length and self.has_same_data(path.parent):
                runs.append((shorter, path.parent))
        return sorted(runs)


def _is_in_run(path: Path) -> bool:
    """Return whether a dictionary is the copy in a run's folder, which may be in that of data."""
    return any((folder / FINGERPRINT).exists() for folder in (path.parent, path.parent.parent))


def code_in(folder: str) -> str:
    """Return a short hash of the Python files in a folder."""
    return digest_of(files_in(Path(folder), ".py"), folder)[:8]


def digest_of(files: Iterable[Path], folder: StrPath, most: int = -1) -> str:
    """Return a hash of files in a folder; ``most`` bytes of each that is no dictionary count."""
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(f"{os.path.relpath(path, folder)} {path.stat().st_size}\n".encode())
        with open(path, "rb") as file:
            digest.update(file.read(-1 if path.match("dict*.txt") else most))
    return digest.hexdigest()


def _without_length(settings: str) -> tuple[str, int]:
    """Split settings into those without the number of updates or epochs, and that number."""
    match = _LENGTH.search(settings)
    return _LENGTH.sub("", settings, count=1), int(match[0]) if match else 0


def folder_name(flags: str, settings: Sequence[str]) -> str:
    """Return the name of a row's folder: its flags' values and a fingerprint of its settings.

    Other signs than letters, numbers and ``.,+-`` are replaced: fairseq splits paths at colons.
    These are the lines of :attr:`Run.settings` that all its seeds and folds share, without the
    number of GPUs and the like.
    """
    words = shlex.split(flags)
    # A flag stands for itself if no value follows it.
    values = [
        word.removeprefix("--")
        for word, following in zip(words, [*words[1:], "--"], strict=True)
        if not word.startswith("--") or following.startswith("--")
    ]
    fingerprint = hashlib.sha256("\n".join(settings).encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.,+-]", "_", "-".join([*values, fingerprint])).encode()
    return (name[:-9][:246] + name[-9:]).decode(errors="ignore")  # file systems take 255 bytes


def preset_of(words: Sequence[str]) -> list[str]:
    """Return a line of :attr:`Run.settings` with the current defaults of the architecture."""
    options = presets.preset(words[words.index("--arch") + 1])
    return [f"preset {json.dumps(options, sort_keys=True)}"] if options else []


def length_dependent_schedule(settings: Sequence[str]) -> str | None:
    """Return the learning rate schedule if it depends on the length of training."""
    (flags,) = (line for line in settings if line.startswith("train "))
    words = flags.split()
    schedule = value_of(words, "--lr-scheduler")
    if schedule == "tri_stage":
        return schedule if value_of(words, "--phase-ratio") else None
    is_open = schedule in SCHEDULES and not value_of(words, SCHEDULES[schedule])
    return schedule if is_open else None
