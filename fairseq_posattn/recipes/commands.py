"""What the command lines of all recipes have in common."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fairseq_posattn.errors import UsageError
from fairseq_posattn.recipes.recipe import Recipe, Row

PLUGIN = str(Path(__file__).resolve().parents[1])  # for --user-dir
LOGGED = ("--log-format", "json", "--log-interval", "100")
NUMBERS_CORPUS = "fairseq_posattn.recipes.numbers_corpus"
TINY_DATASETS = "fairseq_posattn.recipes.tiny_datasets"
KEPT = ("--no-epoch-checkpoints", "--update-epoch-batch-itr", "True")


@dataclass(frozen=True)
class Place:
    """Where a recipe runs.

    Attributes:
        data: binarised data; of classifiers, a folder for each data set is in it.
        out: the folder of all runs.
        gpus: to train a model on; 0 for the CPU.
        features: of the word vectors beside each data set, by its name; missing if there are none.
        references: the data's folder has whole references as text.
    """

    data: Path
    out: Path
    gpus: int
    features: Mapping[str, int]
    references: bool = False


def choose_rows(recipe: Recipe, wanted: str) -> tuple[Row, ...]:
    """The rows that ``--rows`` names, in its order; all of them if it names none."""
    rows = {row.name.lower(): row for row in recipe.rows}
    names = wanted.split(",") if wanted else list(rows)
    for name in names:
        if name.lower() not in rows:
            known = ", ".join(row.name for row in recipe.rows)
            raise UsageError(f"--rows {wanted}: there is no row {name!r}; the rows are: {known}")
    return tuple(rows[name.lower()] for name in names)


@dataclass(frozen=True)
class Entry:
    """A row of a table as it is listed, and the folder of its runs.

    Attributes:
        table: its heading.
        row: its name.
        metrics: the names of its numbers.
        paper: the paper's, "-" for none, standard deviations after ±.
        folder: has a folder for each seed and fold; None where that is not known.
    """

    table: str
    row: str
    metrics: tuple[str, ...]
    paper: tuple[str, ...]
    folder: Path | None = None
