"""A recipe with its options: its data, its device and its runs, without running anything."""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise, product
from pathlib import Path
from typing import TypeVar

from fairseq_posattn.common.cli import value_of
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import check_unsplit, locked
from fairseq_posattn.recipes.options import Options
from fairseq_posattn.recipes.recipe import Dataset, Recipe, Row
from fairseq_posattn.recipes.runs import Run, Say, Step, code_in
from fairseq_posattn.recipes.tuning import Outcome, Tuning, tune

PLUGIN = str(Path(__file__).resolve().parents[1])  # for --user-dir
TINY = "fairseq_posattn.recipes.tiny"
LOGGED = ("--log-format", "json", "--log-interval", "100")
SAVED = ("--no-epoch-checkpoints", "--update-epoch-batch-itr", "True")
LONGEST_SENTENCE = 1024  # tokens, fairseq's default; it stops at one that is larger than a batch
Named = TypeVar("Named")


@dataclass(frozen=True)
class Entry:
    """A row of a printed table, and the folder of its runs."""

    table: str  # heading of the table
    row: str  # its name
    metrics: tuple[str, ...]  # names of its numbers
    paper: tuple[str, ...]  # the paper's numbers, "-" for none, standard deviations after ±
    folder: Path  # contains a folder for each seed and fold
    tuning: Outcome | None = None  # trials of its learning rate


class Plan(ABC):
    """Common part of both kinds of recipes.

    ``regime`` is the last part of the default of ``--out``, ``data`` the default of ``--data``,
    ``generated`` the name of the data of ``--tiny``.
    """

    recipe: Recipe
    averages = True  # intermediate checkpoints are needed
    shares_updates = True  # a training takes several GPUs
    datasets: Sequence[Dataset | None] = (None,)  # of which each has all rows

    def __init__(
        self, recipe: Recipe, options: Options, regime: str, generated: str, data: Path
    ) -> None:
        self.recipe = recipe
        self.options = options
        self.only_shows = options.dry_run or options.list  # on any machine
        self.half = [] if options.precision == "fp32" else [f"--{options.precision}"]
        # fairseq-generate and fairseq-validate have no bfloat16.
        self.half_tested = self.half if self.half == ["--fp16"] else []
        self.rows = choose("row", options.rows, {row.name: row for row in recipe.rows})
        self.title = recipe.title + (" (tiny form: numbers mean nothing)" if options.tiny else "")
        regime += "-tiny" if options.tiny else ""
        self.out = options.out or options.root / "checkpoints" / recipe.paper / regime
        self.generates = options.tiny and not recipe.custom
        self.data = options.data or (self.out / generated if self.generates else data)
        self.user_dir = recipe.user_dir or PLUGIN
        # A line of the runs' settings about code beside the package: other code is another run.
        self.code: list[str] = []
        if recipe.user_dir:
            self.code = [f"user-dir {self.user_dir} {code_in(self.user_dir)}"]
        if not self.only_shows:
            self.data, self.out = self.data.resolve(), self.out.resolve()
        check_unsplit(self.data, "--data")
        check_unsplit(self.out, "--out")
        if options.precision == "fp16" and not self.gpus:
            raise UsageError("--precision fp16 needs a GPU; use fp32 or bf16 on a CPU")

    @cached_property
    def gpus(self) -> int:
        """Return the GPUs for a training; 0 for the CPU."""
        options = self.options
        if options.tiny or options.cpu:
            return 0
        if options.gpus is not None:
            return options.gpus
        if self.only_shows or options.launcher or options.executor == "slurm":
            return 1  # on other machines, perhaps
        available = count_gpus()
        each = available // options.jobs if self.shares_updates else 1
        return min(available, max(1, each))

    @abstractmethod
    def runs(self) -> list[Run]: ...

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """Yield all rows of the recipe's tables; with ``--list`` the selected ones."""

    @abstractmethod
    def _trial(self, row: Row, seed: int, dataset: Dataset | None) -> Run: ...

    def hidden(self, flags: Sequence[str], tiny: Sequence[str]) -> tuple[str, ...]:
        """Return the beginnings of warnings about a model's flags that the user did not give."""
        words = tiny if self.recipe.custom else flags
        return tuple(f"{flag} {value} changes nothing" for flag, value in pairwise(words))

    def models(self) -> Iterator[tuple[Row, Run]]:
        """Yield the first run of each row on each data set, without ``--tune``."""
        for dataset, row in product(self.datasets, self.rows):
            if not row.lead and not row.baseline:
                yield row, self._trial(row, 1, dataset)

    def tunings(self) -> list[Tuning]:
        """Return the trials of learning rates that precede the runs."""
        models = product(self.datasets, self.rows)
        return [tuning for data, row in models if (tuning := self._tuning(row, data)).runs]

    def _tuning(self, row: Row, dataset: Dataset | None = None) -> Tuning:
        """Return the trials of a row; none without ``--tune`` and for rows without training."""
        options = self.options
        if not options.tune or row.lead or row.baseline:
            return Tuning(row)
        flags, all_updates = self._trial(row, 1, dataset).values["train"], options.flags
        # Packaged tables with it validate once in a trial, whose folder keeps its name.
        chosen = flags.split() if self.recipe.custom else options.flags
        if value_of(chosen, "--patience"):
            all_updates += ("--patience", "-1")

        def run_of(rated: Row, seed: int) -> Run:
            # Trials do not depend on --seed, --seeds and --folds.
            trial = replace(options, tune=(), data=self.data, out=self.out / "tuning")
            trial = replace(trial, folds=1, max_update=options.tune_updates, flags=all_updates)
            same = type(self)(self.recipe, trial)  # type: ignore[call-arg]  # of a subclass
            same.code = self.code  # whose files may have changed
            return same._trial(rated, seed, dataset)

        name = f"{dataset.name}, {row.name}" if dataset else row.name
        return tune(name, row, flags, options, run_of)

    def _train(self, folder: Path, program: Sequence[str], words: Sequence[str]) -> Step:
        """Return the training step; ``words`` are data and flags."""
        data, *flags = words
        command = [*program, data, "--user-dir", self.user_dir, *flags, "--save-dir", str(folder)]
        command += [*SAVED, *LOGGED, *self.options.flags]
        return Step("train", tuple(command), log=folder / "train.log", done=folder / "trained")

    @abstractmethod
    def preparation(self) -> Iterator[Step]:
        """Yield the commands that prepare missing data."""

    def tiny_data(self) -> Iterator[Step]:
        """Yield the commands that generate missing tiny data; another recipe waits meanwhile."""
        with locked(self.data.with_name(f".{self.data.name}.lock"), self.data):
            if words := self._tiny_data():
                yield Step("generate", ("python", "-m", TINY, *words))

    @abstractmethod
    def _tiny_data(self) -> list[str]: ...

    @abstractmethod
    def folders(self) -> list[Path]:
        """Return the folders of prepared data."""

    def texts(self) -> list[Path]:
        """Return texts that scoring reads beside a run's folder."""
        return []

    @abstractmethod
    def require_data(self, say: Say) -> None:
        """Raise UsageError, with the command that prepares it, if data is missing."""

    def notes(self) -> list[str]:
        """Return lines to print before the runs."""
        return []


def choose(kind: str, wanted: str, named: Mapping[str, Named]) -> tuple[Named, ...]:
    """Return the values of comma-separated names, in their order; all if there are none."""
    known = {name.lower(): value for name, value in named.items()} | dict(named)
    longest_first = "|".join(map(re.escape, sorted(known, key=len, reverse=True)))
    name_at = re.compile(f"({longest_first})(?:,|$)")  # names may contain commas
    chosen, start = [], 0
    while start < len(wanted):
        match = name_at.match(wanted, start) or name_at.match(wanted.lower(), start)
        if match is None:
            unknown = f"there is no {kind} {wanted[start:].partition(',')[0]!r}"
            raise UsageError(f"--{kind}s {wanted}: {unknown}; known: {'; '.join(named)}")
        chosen.append(known[match[1]])
        start = match.end()
    return tuple(chosen or named.values())


def count_gpus() -> int:
    import torch  # here, because it takes seconds

    return int(torch.cuda.device_count())


def assign_gpus(jobs: int, gpus: int, available: int) -> list[Mapping[str, str]]:
    """Return variables that give each concurrent run its ``gpus``, disjoint if possible."""
    if jobs == 1 or available <= 1 or gpus == 0:
        return [{}] * jobs
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = visible if len(visible) == available else list(map(str, range(available)))
    return [
        {"CUDA_VISIBLE_DEVICES": ",".join(names[(job * gpus + i) % available] for i in range(gpus))}
        for job in range(jobs)
    ]


def share(size: int, batches: int, workers: int, unit: str = "tokens") -> tuple[int, int, str]:
    """Share an update of ``batches`` times ``size`` tokens among ``workers``.

    Return the size and the number of a worker's batches, the fewest of at most ``size``, and a
    description.
    """
    frequency = -(-batches // workers)
    shared = size * batches // (workers * frequency)
    requested, total = size * batches, shared * frequency * workers
    uneven = "" if total == requested else f", not {requested}, which cannot be shared evenly"
    about = f"an update is {workers} worker(s) x {frequency} batch(es) (--update-freq) x "
    about += f"{shared} {unit} = {total} {unit}{uneven}"
    if unit == "tokens" and shared < min(size, LONGEST_SENTENCE):
        about += f"\nwarning: a sentence of more than {shared} tokens will stop training; "
        about += "use fewer workers"
    return shared, frequency, about
