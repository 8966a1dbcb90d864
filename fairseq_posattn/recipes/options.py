"""The options of ``posattn recipe``: fields of a dataclass, from which the parser is made."""

import argparse
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from fairseq_posattn.common.cli import WIDEST, Help, natural, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.recipe import ClassificationRecipe, GenerationRecipe, Recipe

STEPS = ("train", "average", "generate", "score")
PRECISIONS = ("fp32", "fp16", "bf16")
CHECKPOINTS = ("best", "average", "last")
# Options of translation and summarization only, or of classifiers, taggers and recommenders only.
OF_GENERATION = {"source", "steps", "launcher", "small", "checkpoint", "max_update"}
OF_CLASSIFICATION = {"datasets", "folds", "epochs"}
# Options on which results depend; a table's command names them.
OF_RESULTS = ["small", "checkpoint", "max_update", "epochs", "precision"]
OF_RESULTS += ["tune", "tune_updates", "tune_seeds"]


@dataclass
class Options:
    """Values of the options; :data:`HELP` has their meaning."""

    data: Path | None = None
    prepare: bool = False
    out: Path | None = None
    rows: str = ""
    source: Path | None = None
    steps: tuple[str, ...] = ()
    seed: int | None = None
    seeds: int | None = None
    gpus: int | None = None
    cpu: bool = False
    launcher: str = ""
    small: bool = False
    checkpoint: str = ""
    max_update: int | None = None
    datasets: str = ""
    folds: int | None = None
    epochs: int | None = None
    jobs: int = 1
    precision: str = "fp32"
    tune: tuple[float, ...] = ()
    tune_updates: int | None = None
    tune_seeds: int = 1
    tiny: bool = False
    dry_run: bool = False
    table: bool = False
    list: bool = False
    flags: tuple[str, ...] = ()  # after --

    def seed_numbers(self, default: int) -> Sequence[int]:
        """Return the seeds to train with; ``default`` is their number without options."""
        return [self.seed] if self.seed is not None else range(1, (self.seeds or default) + 1)


# Name, metavar and help of each option; the values in braces depend on the recipe.
HELP = """
data FOLDER: {data}
prepare: {prepare}
out FOLDER: checkpoints, results and the table (default: {out})
rows LIST: names of rows, separated by commas (default: all)
source FOLDER: prepare the published data in this folder, without downloading
steps LIST: run these steps even if they are done: {steps} (default: all not done)
seed N: train with this random seed only; the table shows the mean of all finished seeds
seeds N: train each model with the seeds 1 to N (default: {seeds})
gpus N: GPUs for a training, 0 for the CPU (default: {gpus})
cpu: train on the CPU even if there is a GPU, as --gpus 0
launcher CMD: command that replaces fairseq-train, for example on several machines: see
  examples/distributed/README.md
small: smaller models, for a CPU
checkpoint: checkpoint to score: best (by validation loss, validated every epoch), average (of the
  last {averaged}, saved at equal intervals of updates) or last (default: {checkpoint}); each is a
  separate run
max_update N: updates of training (default: {length}); a longer run continues from the last
  checkpoint of a shorter one
datasets LIST: data sets, separated by commas (default: {datasets})
folds N: run the first N folds of a ten-fold cross validation (default: all)
epochs N: epochs of training (default: the paper's epochs or updates); a longer run continues from
  the last checkpoint of a shorter one
jobs N: models to train concurrently; they share the GPUs (default: 1)
precision: number format of training: fp32 as published (default), fp16 on a GPU (also for testing),
  or bf16; each is a separate result
tune LIST: learning rates to try, separated by commas. Each row is first trained with each rate for
  --tune-updates updates, on fold 0 of a cross validation. The best rate in validation (by loss, or
  by the metric that selects checkpoints) replaces the recipe's for all seeds of the row. The trials
  are in the table and in tuning.json beside the runs
tune_updates N: updates of each trial; far fewer than in the row's training favor large rates
tune_seeds N: try each rate with the seeds 1 to N and choose by the mean; a rate with which a seed
  diverges is rejected (default: 1)
tiny: run the same commands on small generated data with tiny models and few updates, on the CPU, to
  check that everything works; the numbers mean nothing
dry_run: print the exact commands and exit
table: print the table of finished runs and exit
list: print table, row, metrics and the paper's numbers of the chosen rows, tab-separated, and exit
"""
CHOICES = {"checkpoint": CHECKPOINTS, "precision": PRECISIONS}


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
    if unknown := next((step for step in steps if step not in STEPS), None):
        known = ", ".join(STEPS)
        raise argparse.ArgumentTypeError(f"{text}: there is no step {unknown!r}; known: {known}")
    return steps


# By the name of an option, or by the type of its value.
TYPES: dict[Any, Callable[[str], Any]] = {
    **{"seed": natural, "gpus": natural, "steps": _steps, "tune": _rates},
    **{Path | None: Path, str: str, int: positive, int | None: positive},
}


def result_words(options: Options) -> "list[str]":
    """Return the words of a command line on which results depend, as typed."""
    words = []
    for name in OF_RESULTS:
        value = getattr(options, name)
        if value != getattr(Options, name):
            words.append(_flag(name))
            if value is not True:
                words.append(",".join(map(str, value)) if name == "tune" else str(value))
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
    """Return the options in the words after the recipe's name; ``--help`` shows the rest."""
    words = list(arguments)
    place = words.index("--") if "--" in words else len(words)
    flags = tuple(words[place + 1 :])
    parser = make_parser(recipe, prog, data_bin, checkpoints)
    options = parser.parse_args(words[:place], Options(flags=flags))
    if options.seed is not None and options.seeds:
        raise UsageError(f"--seed {options.seed}, --seeds {options.seeds}: give only one of them")
    if options.cpu and options.gpus:
        raise UsageError(f"--cpu, --gpus {options.gpus}: give only one of them")
    if isinstance(recipe, ClassificationRecipe) and (options.gpus or 0) > 1:
        raise UsageError(f"--gpus {options.gpus}: a model trains on one; --jobs trains several")
    if bool(options.tune) != bool(options.tune_updates):
        raise UsageError("--tune LIST and --tune-updates N need each other")
    if options.tune_seeds > 1 and not options.tune:
        raise UsageError(f"--tune-seeds {options.tune_seeds} needs --tune LIST")
    names = {word.partition("=")[0] for word in flags}
    if options.tune and "--lr" in names:
        raise UsageError("--tune selects the learning rate: remove --lr after --")
    if options.tune and (lengths := names & {"--max-update", "--max-epoch"}):
        instead = "--max-update" if isinstance(recipe, GenerationRecipe) else "--epochs"
        raise UsageError(f"{min(lengths)} after -- would change --tune; give {instead} before --")
    return options


def make_parser(
    recipe: Recipe, prog: str, data_bin: Path, checkpoints: Path
) -> argparse.ArgumentParser:
    """Return the parser of a recipe's options; its help lists the rows."""
    width = max(20, min(WIDEST, shutil.get_terminal_size().columns - 2))
    values, notes = _describe(recipe, data_bin, checkpoints)
    parser = OneLineParser(
        prog=prog,
        usage=f"{prog} [OPTIONS] [-- FLAGS]",
        description=f"{recipe.title}\n\n{recipe.about}",
        epilog=f"{_rows(recipe)}\n\n{notes}",
        formatter_class=lambda prog: Help(prog, max_help_position=20, width=width),
        allow_abbrev=False,
    )
    hidden = OF_CLASSIFICATION if isinstance(recipe, GenerationRecipe) else OF_GENERATION
    hidden = hidden | (set() if getattr(recipe, "small", None) else {"small"})
    types = {one.name: one.type for one in fields(Options)}
    for option in re.split(r"\n(?=\w)", HELP.strip()):
        head, _, text = option.partition(": ")
        name, _, metavar = head.partition(" ")
        if name in hidden:
            continue
        more: dict[str, Any] = {"action": "store_true"}
        if name in CHOICES:
            more = {"choices": CHOICES[name], "metavar": f"{{{','.join(CHOICES[name])}}}"}
        elif metavar:
            more = {"metavar": metavar, "type": TYPES.get(name) or TYPES[types[name]]}
        names = [_flag(name), *(["--parallel"] if name == "jobs" else [])]
        parser.add_argument(*names, help=" ".join(text.split()).format(**values), **more)
    about = "flags of fairseq-train, added to every row's after the recipe's"
    parser.add_argument_group("-- FLAGS", about)
    return parser


def _rows(recipe: Recipe) -> str:
    names = max(len(row.name) for row in recipe.rows)
    numbers = max(len(row.paper) for row in recipe.rows)
    lines = ["Rows, with the paper's numbers (--list names them) and the flags that differ:", ""]
    for row in recipe.rows:
        lines.append(f"    {row.name:{names}}  {row.paper:{numbers}}  {row.flags}".rstrip())
    return "\n".join(lines)


def _describe(recipe: Recipe, data_bin: Path, checkpoints: Path) -> tuple[dict[str, object], str]:
    """Return the values in the help of a recipe's options, and the notes below them."""
    values: dict[str, object] = {"steps": ",".join(STEPS)}
    if isinstance(recipe, GenerationRecipe):
        one = recipe.settings
        values |= {
            "data": f"binarized data (default: {data_bin / one.corpus}), as written by "
            f"posattn prepare {one.preparation}",
            "prepare": "prepare the data first if it does not exist",
            "length": one.max_update or f"{one.max_epoch} epochs",
            "checkpoint": one.checkpoint,
            "averaged": one.averaged,
            "seeds": 1,
            "gpus": "all of this machine, 1 with --dry-run; results of the CPU are separate",
        }
        regime = one.regime
        data = f"""\
Other data can be used, if it is the output of
    fairseq-preprocess --source-lang {one.source} --target-lang {one.target} --joined-dictionary
for train, valid and test, on text in subwords.
An update has at most {one.batches} x {one.max_tokens} tokens on any number of GPUs."""
    else:
        assert isinstance(recipe, ClassificationRecipe)
        values |= {
            "data": "folder with a folder of binarized data for each data set (default: "
            f"{data_bin})",
            "prepare": "prepare missing data first, with GloVe; this downloads some GB",
            "seeds": "as many as the paper",
            "gpus": "1 if there is any",
            "datasets": ",".join(dataset.name for dataset in recipe.datasets),
        }
        regime = recipe.regime
        data = """\
The data sets are those of posattn prepare. Word vectors are those of its --glove, with their
number of features; without them word vectors are initialized at random."""
    values["out"] = checkpoints / recipe.paper / regime
    return (
        values,
        f"""\
{data}
Finished runs are not repeated, interrupted training resumes from its last checkpoint, and recipes
with the same --out share their common models. A run's folder is named by its flags and a
fingerprint of all its settings: other settings are another run. Beside its checkpoints, result.json
has its scores, settings, seed, versions and hardware. The table is written to
{recipe.table}.json in --out.""",
    )
