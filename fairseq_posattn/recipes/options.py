"""The options of ``posattn recipe``: fields of a dataclass, from which the parser is made."""

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from fairseq_posattn.common.cli import WIDEST, Help, natural, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.recipe import ClassificationRecipe, GenerationRecipe, Recipe

STEPS = ("train", "average", "generate", "score")
PRECISIONS = ("fp32", "fp16", "bf16")
CHECKPOINTS = ("best", "average", "last")


def _rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(dict.fromkeys(map(float, text.split(","))))
    except ValueError:
        rates = ()
    if len(rates) < 2 or not all(0 < rate < inf for rate in rates):
        raise argparse.ArgumentTypeError(f"{text}: give two or more positive numbers as 1e-3,3e-3")
    return rates


def _steps(text: str) -> tuple[str, ...]:
    steps = tuple(text.split(","))
    for step in steps:
        if step not in STEPS:
            raise argparse.ArgumentTypeError(
                f"{text}: there is no step {step!r}; the steps are: {', '.join(STEPS)}"
            )
    return steps


def _option(
    default: Any,
    text: str,
    metavar: str = "",
    type: Any = str,
    *,
    only: Any = Recipe,
    changes_results: bool = False,
    **parsing: Any,
) -> Any:
    """Return a field with the description of its option.

    Args:
        text: help, with the recipe's values in braces.
        only: class of the recipes that have it.
        changes_results: results depend on it, so a table's command names it.
        parsing: other arguments of ``add_argument``.
    """
    if default is False:
        parsing["action"] = "store_true"
    elif "choices" not in parsing:
        parsing |= {"metavar": metavar, "type": type}
    parsing["help"] = text
    metadata = {"parsing": parsing, "only": only, "changes_results": changes_results}
    return field(default=default, metadata=metadata)


def _number(text: str, default: int | None = None, type: Any = positive, **more: Any) -> Any:
    return _option(default, text, "N", type, **more)


@dataclass
class Options:
    """Values of the options; their meaning is in each field's help."""

    data: Path | None = _option(None, "{data}", "FOLDER", Path)
    prepare: bool = _option(False, "{prepare}")
    out: Path | None = _option(
        None, "checkpoints, results and the table (default: {out})", "FOLDER", Path
    )
    rows: str = _option("", "names of rows, separated by commas (default: all)", "LIST")
    # Tables of translation or summarization.
    source: Path | None = _option(
        None,
        "prepare the published data in this folder, without downloading",
        "FOLDER",
        Path,
        only=GenerationRecipe,
    )
    steps: tuple[str, ...] = _option(
        (),
        f"run these steps even if they are done: {','.join(STEPS)} (default: all that are not "
        "done)",
        "LIST",
        _steps,
        only=GenerationRecipe,
    )
    seed: int = _number(
        "random seed (default: 1); the table shows the mean of all finished seeds",
        1,
        natural,
        only=GenerationRecipe,
    )
    gpus: int | None = _number(
        "GPUs for training, 0 for the CPU (default: all of this machine; 1 with --dry-run). "
        "Training on the CPU is a separate result",
        type=natural,
        only=GenerationRecipe,
    )
    launcher: str = _option(
        "",
        "command that replaces fairseq-train, for example on several machines: see "
        "examples/distributed/README.md",
        "CMD",
        only=GenerationRecipe,
    )
    small: bool = _option(
        False, "smaller models, for a CPU", only=GenerationRecipe, changes_results=True
    )
    checkpoint: str = _option(
        "",
        "checkpoint to score: best (by validation loss, validated every epoch), average (of the "
        "last {averaged}, saved at equal intervals of updates) or last (default: {checkpoint}); "
        "each is a separate run",
        choices=CHECKPOINTS,
        only=GenerationRecipe,
        changes_results=True,
    )
    max_update: int | None = _number(
        "updates of training (default: {length}); a longer run continues from the last checkpoint "
        "of a shorter one",
        only=GenerationRecipe,
        changes_results=True,
    )
    # Tables of classifiers, taggers or recommenders.
    datasets: str = _option(
        "",
        "data sets, separated by commas (default: {datasets})",
        "LIST",
        only=ClassificationRecipe,
    )
    seeds: int | None = _number(
        "train each model with the seeds 1 to N (default: as many as the paper); the table shows "
        "the mean of all finished seeds",
        only=ClassificationRecipe,
    )
    folds: int | None = _number(
        "run the first N folds of a ten-fold cross validation (default: all)",
        only=ClassificationRecipe,
    )
    epochs: int | None = _number(
        "epochs of training (default: the paper's epochs or updates); a longer run continues from "
        "the last checkpoint of a shorter one",
        only=ClassificationRecipe,
        changes_results=True,
    )
    cpu: bool = _option(False, "train on the CPU even if there is a GPU", only=ClassificationRecipe)
    # All tables.
    jobs: int = _number("models to train concurrently; they share the GPUs (default: 1)", 1)
    precision: str = _option(
        "fp32",
        "number format of training: fp32 as published (default), fp16 on a GPU (also for testing), "
        "or bf16; each is a separate result",
        choices=PRECISIONS,
        changes_results=True,
    )
    tune: tuple[float, ...] = _option(
        (),
        "learning rates to try, separated by commas. Each row is first trained with each rate for "
        "--tune-updates updates, on fold 0 of a cross validation. The best rate in validation (by "
        "loss, or by the metric that selects checkpoints) replaces the recipe's for all seeds of "
        "the row. The trials are in the table and in tuning.json beside the runs",
        "LIST",
        _rates,
        changes_results=True,
    )
    tune_updates: int | None = _number(
        "updates of each trial; far fewer than in the row's training favour large rates",
        changes_results=True,
    )
    tune_seeds: int = _number(
        "try each rate with the seeds 1 to N and choose by the mean; a rate with which a seed "
        "diverges is rejected (default: 1)",
        1,
        changes_results=True,
    )
    tiny: bool = _option(
        False,
        "run the same commands on small generated data with tiny models and few updates, on the "
        "CPU, to check that everything works; the numbers mean nothing",
    )
    dry_run: bool = _option(False, "print the exact commands and exit")
    table: bool = _option(False, "print the table of finished runs and exit")
    list: bool = _option(
        False, "print table, row, metrics and the paper's numbers, tab-separated, and exit"
    )
    flags: tuple[str, ...] = ()  # after --


def result_words(options: Options) -> "list[str]":
    """Return the words of a command line on which results depend, as typed.

    Seeds, folds, rows, folders and concurrency are not among them.
    """
    words = []
    for one in fields(Options):
        value = getattr(options, one.name)
        if one.metadata.get("changes_results") and value != one.default:
            words.append(_flag(one.name))
            if value is not True:
                words.append(",".join(map(str, value)) if one.name == "tune" else str(value))
    return [*words, "--", *options.flags] if options.flags else words


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class OneLineParser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        message = message.replace(": expected one argument", " needs a value")
        message = message.removeprefix("argument ").replace(": ", " ", 1)
        raise UsageError(f"{message}; --help lists the options")


def read_options(
    recipe: Recipe, arguments: Sequence[str], prog: str, data_bin: Path, checkpoints: Path
) -> Options:
    """Return the options of a command line.

    Args:
        arguments: words after the recipe's name.
        prog: name of the command.
        data_bin, checkpoints: folders of all data and of all results, for ``--help``.

    Raises:
        UsageError: an option is unknown or its value is invalid.
    """
    words = list(arguments)
    place = words.index("--") if "--" in words else len(words)
    flags = tuple(words[place + 1 :])
    parser = make_parser(recipe, prog, data_bin, checkpoints)
    options = parser.parse_args(words[:place], Options(flags=flags))
    if bool(options.tune) != bool(options.tune_updates):
        raise UsageError("--tune LIST and --tune-updates N need each other")
    if options.tune_seeds > 1 and not options.tune:
        raise UsageError(f"--tune-seeds {options.tune_seeds} needs --tune LIST")
    names = {word.partition("=")[0] for word in flags}
    if options.tune and "--lr" in names:
        raise UsageError("--tune selects the learning rate: remove --lr after --")
    if options.tune and (lengths := names & {"--max-update", "--max-epoch"}):
        instead = "--max-update" if isinstance(recipe, GenerationRecipe) else "--epochs"
        raise UsageError(
            f"{min(lengths)} after -- would change the trials of --tune; give {instead} before --"
        )
    return options


def make_parser(
    recipe: Recipe, prog: str, data_bin: Path, checkpoints: Path
) -> argparse.ArgumentParser:
    """Return the parser of a recipe's options; its help lists the rows."""
    width = max(20, min(WIDEST, shutil.get_terminal_size().columns - 2))
    parser = OneLineParser(
        prog=prog,
        usage=f"{prog} [OPTIONS] [-- FLAGS]",
        description=f"{recipe.title}\n\n{recipe.about}".replace("%", "%%"),
        epilog=f"{_rows(recipe)}\n\n{_notes(recipe)}".replace("%", "%%"),
        formatter_class=lambda prog: Help(prog, max_help_position=20, width=width),
        allow_abbrev=False,
    )
    values = _values(recipe, data_bin, checkpoints)
    for one in fields(Options):
        metadata = one.metadata
        if not metadata or not isinstance(recipe, metadata["only"]):
            continue
        if one.name == "small" and not getattr(recipe, "small", None):
            continue
        names = [_flag(one.name), *(["--parallel"] if one.name == "jobs" else [])]
        text = metadata["parsing"]["help"].format(**values)
        parser.add_argument(*names, **{**metadata["parsing"], "help": text})
    parser.add_argument_group(
        "-- FLAGS", "flags of fairseq-train, added to every row's after the recipe's"
    )
    return parser


def _values(recipe: Recipe, data_bin: Path, checkpoints: Path) -> dict[str, object]:
    """Return the values in the help of a recipe's options."""
    if isinstance(recipe, GenerationRecipe):
        settings = recipe.settings
        return {
            "data": f"binarised data (default: {data_bin / settings.corpus}), as written by "
            f"posattn prepare {settings.preparation}",
            "prepare": "prepare the data first if it does not exist",
            "out": checkpoints / recipe.paper / settings.regime,
            "length": settings.max_update or f"{settings.max_epoch} epochs",
            "checkpoint": settings.checkpoint,
            "averaged": settings.averaged,
        }
    assert isinstance(recipe, ClassificationRecipe)
    return {
        "data": f"folder with a folder of binarised data for each data set (default: {data_bin})",
        "prepare": "prepare missing data first, with GloVe; this downloads some GB",
        "out": checkpoints / recipe.paper / recipe.regime,
        "datasets": ",".join(dataset.name for dataset in recipe.datasets),
    }


def _rows(recipe: Recipe) -> str:
    names, numbers = (
        max(map(len, texts))
        for texts in zip(*((row.name, row.paper) for row in recipe.rows), strict=True)
    )
    lines = [
        f"    {row.name:{names}}  {row.paper:{numbers}}  {row.flags}".rstrip()
        for row in recipe.rows
    ]
    title = "Rows, with the paper's numbers (--list names them) and the flags that differ:"
    return "\n".join([title, "", *lines])


def _notes(recipe: Recipe) -> str:
    if isinstance(recipe, GenerationRecipe):
        settings = recipe.settings
        data = f"""\
Other data can be used, if it is the output of
    fairseq-preprocess --source-lang {settings.source} --target-lang {settings.target} \
--joined-dictionary
for train, valid and test, on text in subwords.
An update has at most {settings.batches} x {settings.max_tokens} tokens on any number of GPUs."""
    else:
        data = """\
The data sets are those of posattn prepare. Word vectors are those of its --glove, with their
number of features; without them word vectors are initialized at random."""
    return f"""\
{data}
Finished runs are not repeated, interrupted training resumes from its last checkpoint, and recipes
with the same --out share their common models. A run's folder is named by its flags and a
fingerprint of all its settings: other settings are another run. Beside its checkpoints, result.json
has its scores, settings, seed, versions and hardware. The table is written to
{recipe.table}.json in --out."""
