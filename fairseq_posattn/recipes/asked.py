"""A recipe as it is asked for: its data, its machine, its runs; nothing here acts."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.locking import locked
from fairseq_posattn.recipes.options import Options
from fairseq_posattn.recipes.recipe import Recipe
from fairseq_posattn.recipes.runs import Run, Say, Step
from fairseq_posattn.recipes.tuning import Outcome, Tuning

PLUGIN = str(Path(__file__).resolve().parents[1])  # for --user-dir
LOGGED = ("--log-format", "json", "--log-interval", "100")
KEPT = ("--no-epoch-checkpoints", "--update-epoch-batch-itr", "True")
Named = TypeVar("Named")


@dataclass(frozen=True)
class Entry:
    """A row of a table as it is listed, and the folder of its runs.

    Attributes:
        table: its heading.
        row: its name.
        metrics: the names of its numbers.
        paper: the paper's, "-" for none, standard deviations after ±.
        folder: has a folder for each seed and fold.
        tuning: how its learning rate was chosen, if it was.
    """

    table: str
    row: str
    metrics: tuple[str, ...]
    paper: tuple[str, ...]
    folder: Path
    tuning: Outcome | None = None


class Asked(ABC):
    """What both kinds of recipes have in common.

    Args:
        regime: the last part of the default of ``--out``.
        tiny_data: the folder of generated data in there.
        data: the default of ``--data``.
        checkpoints: has the default of ``--out``.

    Raises:
        UsageError: ``--rows`` names one that there is not, or float16 is to be trained on a CPU.
    """

    recipe: Recipe
    averages = True  # what lies between the first checkpoint and the last is needed

    def __init__(
        self,
        recipe: Recipe,
        options: Options,
        regime: str,
        tiny_data: str,
        data: Path,
        checkpoints: Path,
    ) -> None:
        self.recipe = recipe
        self.options = options
        self.looks = options.dry_run or options.list  # and does nothing, on whatever machine
        self.rows = choose("row", options.rows, {row.name: row for row in recipe.rows})
        form = "-tiny" if options.tiny else ""
        self.title = recipe.title + (" (tiny form: ours mean nothing)" if options.tiny else "")
        self.out = options.out or checkpoints / recipe.paper / f"{regime}{form}"
        self.data = options.data or (self.out / tiny_data if options.tiny else data)
        if not self.looks:
            self.data, self.out = self.data.resolve(), self.out.resolve()
        if options.precision == "fp16" and not self.gpus:
            raise UsageError("--precision fp16 needs a GPU; a CPU trains in fp32 or bf16")

    @cached_property
    def gpus(self) -> int:
        """To train a model on; 0 for the CPU."""
        return 0 if self.options.tiny else self._gpus()

    @abstractmethod
    def _gpus(self) -> int: ...

    @property
    def half(self) -> list[str]:
        """Return the flag of fairseq-train for half precision; none for float32."""
        return [] if self.options.precision == "fp32" else [f"--{self.options.precision}"]

    @property
    def half_tested(self) -> list[str]:
        """Return that flag for fairseq-generate and -validate, which have no bfloat16."""
        return self.half if self.half == ["--fp16"] else []

    @abstractmethod
    def runs(self) -> list[Run]:
        """Those that are asked for."""

    @abstractmethod
    def tunings(self) -> list[Tuning]:
        """The learning rates to try before, for each of them; none if none are asked for."""

    def trying(self, seed: int = 1) -> Options:
        """The options with which these are tried, whatever the seed that is asked for."""
        return replace(
            self.options,
            tune=(),
            data=self.data,
            out=self.out / "tuning",
            seed=seed,
            folds=1,
            max_update=self.options.tune_updates,
        )

    @abstractmethod
    def entries(self) -> Iterator[Entry]:
        """All rows of its tables."""

    @abstractmethod
    def preparation(self) -> Iterator[Step]:
        """What makes the data that is not there yet."""

    def tiny_data(self) -> Iterator[Step]:
        """What makes the small data that is not there yet; another recipe waits meanwhile."""
        self.data.parent.mkdir(parents=True, exist_ok=True)
        with locked(self.data.with_name(f".{self.data.name}.lock"), self.data):
            yield from self._tiny_data()

    @abstractmethod
    def _tiny_data(self) -> Iterator[Step]: ...

    @abstractmethod
    def require_data(self, say: Say) -> None:
        """Raise UsageError, with the command that makes it, unless the data is there."""

    def notes(self) -> list[str]:
        """What is to be said before the runs."""
        return []


def choose(kind: str, wanted: str, named: Mapping[str, Named]) -> tuple[Named, ...]:
    """Those that a list with commas between names, in its order; all of them if it is empty."""
    known = {name.lower(): one for name, one in named.items()}
    names = wanted.split(",") if wanted else list(known)
    for name in names:
        if name.lower() not in known:
            listed = ", ".join(named)
            raise UsageError(
                f"--{kind}s {wanted}: there is no {kind} {name!r}; the {kind}s are: {listed}"
            )
    return tuple(known[name.lower()] for name in names)
