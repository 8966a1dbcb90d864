"""The options of ``posattn recipe``, for a table of translations or of classifiers."""

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import NoReturn

from fairseq_posattn.common.cli import WIDEST, Help, natural, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.recipe import ClassificationRecipe, GenerationRecipe, Recipe

STEPS = ("train", "average", "generate", "score")
PRECISIONS = ("fp32", "fp16", "bf16")
CHECKPOINTS = ("best", "average", "last")


@dataclass
class Options:
    """What is asked of a recipe; see :func:`make_parser` for its meaning."""

    data: Path | None = None
    out: Path | None = None
    prepare: bool = False
    rows: str = ""
    jobs: int = 1
    tiny: bool = False
    dry_run: bool = False
    table: bool = False
    list: bool = False
    tune: tuple[float, ...] = ()
    tune_updates: int | None = None
    tune_seeds: int = 1
    max_update: int | None = None
    precision: str = "fp32"
    flags: tuple[str, ...] = ()
    # of a table of translations or summaries
    source: Path | None = None
    steps: tuple[str, ...] = ()
    seed: int = 1
    gpus: int | None = None
    launcher: str = ""
    checkpoint: str = ""
    small: bool = False
    # of a table of classifiers, taggers or recommenders
    datasets: str = ""
    seeds: int | None = None
    folds: int | None = None
    epochs: int | None = None
    cpu: bool = False


def what_counts(options: Options) -> list[str]:
    """The words of a command line on which results depend, as it may be typed.

    Not those that say which seeds, folds and rows of a table are run, where, or how many at a time.
    """
    words = ["--small"] if options.small else []
    for option, value in (
        ("--checkpoint", options.checkpoint),
        ("--max-update", options.max_update),
        ("--epochs", options.epochs),
        ("--precision", options.precision if options.precision != "fp32" else None),
        ("--tune", ",".join(map(str, options.tune))),
        ("--tune-updates", options.tune_updates),
        ("--tune-seeds", options.tune_seeds if options.tune_seeds > 1 else None),
    ):
        words += [option, str(value)] if value else []
    return [*words, "--", *options.flags] if options.flags else words


class OneLineParser(argparse.ArgumentParser):
    """Raises UsageError where the command line will not do."""

    def error(self, message: str) -> NoReturn:
        message = message.replace(": expected one argument", " needs a value")
        message = message.removeprefix("argument ").replace(": ", " ", 1)
        raise UsageError(f"{message}; --help lists the options")


def read_options(
    recipe: Recipe, arguments: Sequence[str], prog: str, data_bin: Path, checkpoints: Path
) -> Options:
    """What a command line asks of a recipe.

    Args:
        arguments: after the recipe's name.
        prog: what to call the command.
        data_bin, checkpoints: the folders of all data and of all results, for ``--help``.

    Raises:
        UsageError: an option is unknown or its value will not do.
    """
    own, flags = list(arguments), []
    if "--" in own:
        place = own.index("--")
        own, flags = own[:place], own[place + 1 :]
    parser = make_parser(recipe, prog, data_bin, checkpoints)
    options = parser.parse_args(own, Options(flags=tuple(flags)))
    if bool(options.tune) != bool(options.tune_updates):
        raise UsageError("--tune LIST and --tune-updates N need each other")
    if options.tune_seeds > 1 and not options.tune:
        raise UsageError(f"--tune-seeds {options.tune_seeds} needs --tune LIST")
    given = {word.partition("=")[0] for word in flags}
    if options.tune and "--lr" in given:
        raise UsageError("--tune chooses the learning rate: do not give --lr, too")
    if options.tune and (lengths := given & {"--max-update", "--max-epoch"}):
        length, instead = min(lengths), "--epochs"
        if isinstance(recipe, GenerationRecipe):
            instead = "--max-update"
        raise UsageError(
            f"{length} after -- is of the trainings of --tune, too: give {instead} before --"
        )
    return options


def make_parser(
    recipe: Recipe, prog: str, data_bin: Path, checkpoints: Path
) -> argparse.ArgumentParser:
    """The parser of a recipe's options, whose help shows its rows, too."""
    width = max(20, min(WIDEST, shutil.get_terminal_size().columns - 2))
    parser = OneLineParser(
        prog=prog,
        usage=f"{prog} [OPTIONS] [-- FLAGS]",
        description=f"{recipe.title}\n\n{recipe.about}".replace("%", "%%"),
        epilog=f"{_rows(recipe)}\n\n{_notes(recipe)}".replace("%", "%%"),
        formatter_class=lambda prog: Help(prog, max_help_position=20, width=width),
        allow_abbrev=False,
    )
    _add_folders(parser, recipe, data_bin, checkpoints)
    parser.add_argument(
        "--rows",
        metavar="LIST",
        help="those to run, with commas between (default: all)",
    )
    if isinstance(recipe, GenerationRecipe):
        _add_generation(parser, recipe)
    elif isinstance(recipe, ClassificationRecipe):
        _add_classification(parser, recipe)
    parser.add_argument(
        "--jobs",
        "--parallel",
        type=positive,
        metavar="N",
        help="train so many models at a time; they share the GPUs (default: 1)",
    )
    parser.add_argument(
        "--precision",
        choices=PRECISIONS,
        help="number format of training: fp32 as published (default), fp16 on a GPU, which also "
        "tests in it, or bf16; each is another result",
    )
    parser.add_argument(
        "--tune",
        type=_rates,
        metavar="LIST",
        help="learning rates, with commas between, with each of which each row is trained first, "
        "on fold 0 if there are folds, else as ever, but for --tune-updates and --tune-seeds; the "
        "one that is then best in validation, by loss or by what chooses checkpoints, takes the "
        "place of the recipe's for all seeds of this row. tuning.json beside these, and the table, "
        "keep what was tried",
    )
    parser.add_argument(
        "--tune-updates",
        type=positive,
        metavar="N",
        help="updates of each of these trainings; far fewer than the row's own favour large rates",
    )
    parser.add_argument(
        "--tune-seeds",
        type=positive,
        metavar="N",
        help="try each learning rate with the seeds 1 to N, and choose by the mean; a rate with "
        "which one of them diverges is out (default: 1)",
    )
    for option, about in (
        ("--tiny", "the same commands on small generated data with tiny models and few updates, on "
         "the CPU, to see that all works; the numbers mean nothing"),
        ("--dry-run", "print the exact commands and stop"),
        ("--table", "print the table of what is finished and stop"),
        ("--list", "print table, row, metrics and the paper's numbers, tabs between, and stop"),
    ):  # fmt: skip
        parser.add_argument(option, action="store_true", help=about)
    parser.add_argument_group(
        "-- FLAGS", "go to fairseq-train, for every row, after the recipe's own"
    )
    return parser


def _add_folders(
    parser: argparse.ArgumentParser, recipe: Recipe, data_bin: Path, checkpoints: Path
) -> None:
    if isinstance(recipe, GenerationRecipe):
        settings = recipe.settings
        data = (
            f"binarised data (default: {data_bin / settings.corpus}), as made by posattn prepare "
        )
        data += settings.preparation
        prepare, regime = "make it first, if it is not there yet", settings.regime
    else:
        assert isinstance(recipe, ClassificationRecipe)
        data = f"has a folder of binarised data for each data set (default: {data_bin})"
        prepare = "make those that are not there yet, with GloVe; this downloads some GB"
        regime = recipe.regime
    parser.add_argument("--data", type=Path, metavar="FOLDER", help=data)
    parser.add_argument("--prepare", action="store_true", help=prepare)
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help=f"checkpoints, results and the table (default: {checkpoints / recipe.paper / regime})",
    )


def _add_generation(parser: argparse.ArgumentParser, recipe: GenerationRecipe) -> None:
    settings = recipe.settings
    epochs = f"{settings.max_epoch} epochs"
    parser.add_argument(
        "--source",
        type=Path,
        metavar="FOLDER",
        help="prepare the published data in this folder, without downloading",
    )
    parser.add_argument(
        "--steps",
        type=_steps,
        metavar="LIST",
        help=f"of {', '.join(STEPS)}, those to do, even if they are done already "
        "(default: all that are not)",
    )
    parser.add_argument(
        "--seed",
        type=natural,
        metavar="N",
        help="(default: 1); the table shows the mean of all seeds that were run",
    )
    parser.add_argument(
        "--gpus",
        type=natural,
        metavar="N",
        help="GPUs to train on, 0 for the CPU (default: all that are here; 1 with --dry-run). What "
        "is trained on the CPU is another result",
    )
    parser.add_argument(
        "--launcher",
        metavar="CMD",
        help="a command that trains in the place of fairseq-train, on several machines for "
        "instance: see examples/distributed/README.md",
    )
    parser.add_argument(
        "--max-update",
        type=positive,
        metavar="N",
        help=f"updates of training (default: {settings.max_update or epochs}); with more than "
        "before it goes on from the last checkpoint",
    )
    parser.add_argument(
        "--checkpoint",
        choices=CHECKPOINTS,
        help="what is scored: the one of the best loss in validation, which is then after each "
        f"epoch, the average of the last {settings.averaged}, which are then an even number of "
        f"updates apart, or the last (default: {settings.checkpoint}); each is a run of its own",
    )
    if recipe.small is not None:
        parser.add_argument("--small", action="store_true", help="smaller models, for a CPU")


def _add_classification(parser: argparse.ArgumentParser, recipe: ClassificationRecipe) -> None:
    names = ",".join(dataset.name for dataset in recipe.datasets)
    parser.add_argument(
        "--datasets",
        metavar="LIST",
        help=f"those to run on, with commas between (default: {names})",
    )
    for option, about in (
        ("--seeds", "train each model with the seeds 1 to N (default: as many as the paper); the "
         "table has the mean of all that were run"),
        ("--folds", "of a cross validation in ten folds, run the first N (default: all)"),
        ("--epochs", "of training (default: the paper's epochs or updates); with more epochs than "
         "before it goes on from the last checkpoint"),
    ):  # fmt: skip
        parser.add_argument(option, type=positive, metavar="N", help=about)
    parser.add_argument("--cpu", action="store_true", help="even where there is a GPU")


def _rows(recipe: Recipe) -> str:
    names, numbers = (
        max(map(len, texts))
        for texts in zip(*((row.name, row.paper) for row in recipe.rows), strict=True)
    )
    lines = [
        f"    {row.name:{names}}  {row.paper:{numbers}}  {row.flags}".rstrip()
        for row in recipe.rows
    ]
    title = "Rows, with the paper's numbers (--list names them) and the flags that set them apart:"
    return "\n".join([title, "", *lines])


def _notes(recipe: Recipe) -> str:
    if isinstance(recipe, GenerationRecipe):
        settings = recipe.settings
        languages = f"--source-lang {settings.source} --target-lang {settings.target}"
        size = f"{settings.batches} x {settings.max_tokens}"
        data = f"""\
The data may be another's, if it is what
    fairseq-preprocess {languages} --joined-dictionary
writes for train, valid and test, of text in subwords.
An update is {size} tokens at most, however many GPUs there are."""
    else:
        data = """\
The data sets are what posattn prepare writes. Word vectors are those of its --glove,
with as many features as they have, or random ones where there are none."""
    return f"""\
{data}
What is finished is not done again, training that was interrupted goes on from its last checkpoint,
and recipes with a model in common share it if they share --out. A run's folder is named by its
flags and a fingerprint of all its settings, so that other settings are another run. Beside its
checkpoints, result.json keeps its scores, settings, seed, versions and hardware; the table is kept
in --out as {recipe.table}.json."""


def _rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(dict.fromkeys(map(float, text.split(","))))
    except ValueError:
        rates = ()
    if len(rates) < 2 or not all(0 < rate < inf for rate in rates):
        raise argparse.ArgumentTypeError(
            f"{text}: must be two or more positive numbers, with commas between"
        )
    return rates


def _steps(text: str) -> tuple[str, ...]:
    steps = tuple(text.split(","))
    for step in steps:
        if step not in STEPS:
            known = ", ".join(STEPS)
            raise argparse.ArgumentTypeError(
                f"{text}: there is no step {step!r}; the steps are: {known}"
            )
    return steps
