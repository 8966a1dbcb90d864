"""A recipe as it is asked for: its data, its machine, and what follows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from fairseq_posattn.recipes.commands import Entry, Place
from fairseq_posattn.recipes.options import Options
from fairseq_posattn.recipes.recipe import Recipe
from fairseq_posattn.recipes.runs import Run, Step

AnyRecipe = TypeVar("AnyRecipe", bound=Recipe)
AnyOptions = TypeVar("AnyOptions", bound=Options)


class Asked(ABC, Generic[AnyRecipe, AnyOptions]):
    """What both kinds of recipes have in common.

    Args:
        regime: the last part of the default of ``--out``.
        tiny_data: the folder of generated data in there.
        data: the default of ``--data``.
        checkpoints: has the default of ``--out``.
    """

    keeps_last = True  # checkpoints of a finished run, for it to go on
    steps: tuple[str, ...] = ()  # of a run, those that are asked for; none: all

    def __init__(
        self,
        recipe: AnyRecipe,
        options: AnyOptions,
        regime: str,
        tiny_data: str,
        data: Path,
        checkpoints: Path,
    ) -> None:
        self.recipe = recipe
        self.options = options
        form = "-tiny" if options.tiny else ""
        self.title = recipe.title + (" (tiny form: ours mean nothing)" if options.tiny else "")
        self.out = options.out or checkpoints / recipe.paper / f"{regime}{form}"
        self.data = options.data or (self.out / tiny_data if options.tiny else data)

    def place(self, gpus: int | None = None) -> Place:
        """Where it runs, as it is now; ``gpus`` to train a model on, if that is known."""
        if not self.options.dry_run:
            self.data, self.out = self.data.resolve(), self.out.resolve()
        return self._place(self.gpus() if gpus is None else gpus)

    @abstractmethod
    def _place(self, gpus: int) -> Place: ...

    @abstractmethod
    def gpus(self) -> int:
        """To train a model on."""

    @abstractmethod
    def runs(self, place: Place) -> list[Run]:
        """Those that are asked for."""

    @abstractmethod
    def entries(self, place: Place | None = None) -> Iterator[Entry]:
        """All rows of its tables; with their folders if it is known where they are run."""

    @abstractmethod
    def preparation(self) -> Iterator[Step]:
        """What makes the data that is not there yet."""

    @abstractmethod
    def tiny_data(self) -> Iterator[Step]:
        """What makes the small data that is not there yet."""

    @abstractmethod
    def require_data(self, say: Callable[[str], None]) -> None:
        """Raise UsageError, with the command that makes it, unless the data is there."""

    def notes(self, place: Place) -> list[str]:
        """What is to be said before the runs."""
        return []


def gpus_here() -> int:
    """How many this machine has."""
    import torch  # only here: it takes seconds

    return int(torch.cuda.device_count())
