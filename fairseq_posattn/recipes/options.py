"""The options of ``posattn recipe``: fields of a dataclass, from which the parser is made."""

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from fairseq_posattn.common.cli import WIDEST, Help, natural, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import output_file
from fairseq_posattn.common.flags import flag
from fairseq_posattn.recipes.recipe import ClassificationRecipe, GenerationRecipe, Recipe

STEPS = ("train", "average", "generate", "score")
CHECKPOINTS = ("best", "average", "last")
# Arguments for argparse by the type of a field, unless its metadata has others.
VALUES: dict[Any, dict[str, Any]] = {bool: {"action": "store_true"}}
VALUES |= dict.fromkeys((int, int | None), {"metavar": "N", "type": positive})
VALUES |= {Path | None: {"metavar": "FOLDER", "type": Path}}
# Flags of fairseq-train that are refused after --, such as one seed for all runs, and the options.
INSTEAD = {"--seed": "--seed or --seeds", "--save-dir": "--out", "--cpu": "--cpu"}
INSTEAD |= {"--fp16": "--precision fp16", "--bf16": "--precision bf16"}


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
        raise argparse.ArgumentTypeError(f"no step {unknown!r}; known: {', '.join(STEPS)}")
    return steps


@dataclass
class Options:
    """Values of the options, each declared with its help.

    Metadata beside argparse's: ``only`` is the class of recipes that take the option, ``prepares``
    marks options of packaged tables alone, ``also`` is another name of it, and ``in_command`` marks
    options on which results depend, which a table's command names. Values in braces in the help
    depend on the recipe.
    """

    data: Path | None = flag(None, "{data}", prepares=True)
    prepare: bool = flag(False, "{prepare}", prepares=True)
    out: Path | None = flag(None, "checkpoints, results and the table (default: {out})")
    rows: str = flag("", "names of rows, separated by commas (default: all)", metavar="LIST")
    source: Path | None = flag(
        None,
        "prepare the published data in this folder, without downloading",
        only=GenerationRecipe,
        prepares=True,
    )
    steps: tuple[str, ...] = flag(
        (),
        "run these steps even if they are done: {steps} (default: all not done)",
        metavar="LIST",
        type=_steps,
        only=GenerationRecipe,
    )
    seed: int | None = flag(
        None,
        "train with this random seed only; the table shows the mean of all finished seeds",
        type=natural,
    )
    seeds: int | None = flag(None, "train each model with the seeds 1 to N (default: {seeds})")
    gpus: int | None = flag(
        None, "GPUs for a training, 0 for the CPU (default: {gpus})", type=natural
    )
    cpu: bool = flag(False, "train on the CPU even if there is a GPU, as --gpus 0")
    launcher: str = flag(
        "",
        "command that replaces fairseq-train: see examples/distributed/README.md",
        metavar="CMD",
        only=GenerationRecipe,
    )
    executor: str = flag(
        "",
        "submit each run as a job to Slurm, or as a process of this machine, --jobs at a time, and "
        "wait; needs submitit. Other options of sbatch are variables such as SBATCH_ACCOUNT",
        choices=("slurm", "local"),
    )
    partition: str = flag("", "of Slurm, for --executor", metavar="NAME")
    time: int = flag(1440, "minutes of a job before it is requeued, for --executor (default: 1440)")
    cores: int = flag(4, "processor cores of a job, for --executor (default: 4)")
    shards: int = flag(
        1,
        "parts of each test set that are generated at the same time, each a job of --executor; "
        "their outputs are merged in order (default: 1)",
        only=GenerationRecipe,
    )
    small: bool = flag(False, "smaller models, for a CPU", in_command=True)
    checkpoint: str = flag(
        "",
        "checkpoint to score: best (by validation loss, validated every epoch), average (of the "
        "last {averaged}, saved at equal intervals of updates) or last (default: {checkpoint}); "
        "each is a separate run",
        choices=CHECKPOINTS,
        only=GenerationRecipe,
        in_command=True,
    )
    max_update: int | None = flag(
        None,
        "updates of training (default: {length}); a longer run continues from the last checkpoint "
        "of a shorter training",
        only=GenerationRecipe,
        in_command=True,
    )
    datasets: str = flag(
        "",
        "data sets, separated by commas (default: {datasets})",
        metavar="LIST",
        only=ClassificationRecipe,
    )
    folds: int | None = flag(
        None,
        "run the first N folds of a ten-fold cross validation (default: all)",
        only=ClassificationRecipe,
    )
    epochs: int | None = flag(
        None,
        "epochs of training (default: the paper's epochs or updates); a longer run continues from "
        "the last checkpoint of a shorter training",
        only=ClassificationRecipe,
        in_command=True,
    )
    jobs: int = flag(
        1, "models to train concurrently; they share the GPUs (default: 1)", also="--parallel"
    )
    precision: str = flag(
        "fp32",
        "number format of training: fp32 as published (default), fp16 on a GPU (also for "
        "testing), or bf16; each is a separate result",
        choices=("fp32", "fp16", "bf16"),
        in_command=True,
    )
    tune: tuple[float, ...] = flag(
        (),
        "learning rates to try, separated by commas: each row is first trained with each for "
        "--tune-updates updates, on fold 0 of a cross validation. The best in validation (by loss, "
        "or by the metric that selects checkpoints) is that of all seeds of the row",
        metavar="LIST",
        type=_rates,
        in_command=True,
    )
    tune_updates: int | None = flag(
        None,
        "updates of each trial; far fewer than in the row's training favor large rates",
        in_command=True,
    )
    tune_seeds: int = flag(
        1,
        "try each rate with the seeds 1 to N and choose by the mean; a rate with which a seed "
        "diverges is rejected (default: 1)",
        in_command=True,
    )
    tiny: bool = flag(
        False,
        "run the same commands on small generated data with tiny models and few updates, on the "
        "CPU, to check that everything works; the numbers mean nothing",
    )
    dry_run: bool = flag(False, "print the exact commands and exit")
    table: bool = flag(False, "print the table of finished runs and exit")
    bundle: Path | None = flag(
        None,
        "also write the table with its runs' outputs, sentence statistics, commands and versions, "
        "and fingerprints of the data, to this archive (.tar.gz); --verify FILE instead of a "
        "recipe recomputes its scores and p values",
        metavar="FILE",
        type=output_file,
    )
    list: bool = flag(
        False, "print tables, rows, metrics and the paper's numbers, tab-separated, and exit"
    )
    flags: tuple[str, ...] = ()  # after --
    root: Path = Path()  # has the defaults of --data and --out; not an option

    def seed_numbers(self, default: int) -> Sequence[int]:
        """Return the seeds to train with; ``default`` is their number without options."""
        return [self.seed] if self.seed is not None else range(1, (self.seeds or default) + 1)


def result_words(options: Options) -> list[str]:
    """Return the words of a command line on which results depend, as typed."""
    words = []
    for field in fields(Options):
        value = getattr(options, field.name)
        if field.metadata.get("in_command") and value != field.default:
            words.append(_flag(field.name))
            if isinstance(value, tuple):
                words.append(",".join(map(str, value)))
            elif value is not True:
                words.append(str(value))
    return [*words, "--", *options.flags] if options.flags else words


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


class OneLineParser(argparse.ArgumentParser):
    """A parser that raises UsageError instead of printing its usage."""

    def error(self, message: str) -> NoReturn:
        message = message.replace(": expected one argument", " needs a value")
        message = message.removeprefix("argument ").replace(": ", " ", 1)
        raise UsageError(f"{message}; --help lists the options")


def read_options(recipe: Recipe, arguments: Sequence[str], prog: str, root: Path) -> Options:
    """Return the options in the words after the recipe's name; ``--help`` shows the rest.

    ``root`` has the folders data-bin and checkpoints, the parents of the default folders.
    """
    words = list(arguments)
    end = words.index("--") if "--" in words else len(words)
    flags = tuple(words[end + 1 :])
    defaults = Options(flags=flags, root=root)
    options = make_parser(recipe, prog, defaults).parse_args(words[:end], defaults)
    if options.seed is not None and options.seeds:
        raise UsageError(f"--seed {options.seed}, --seeds {options.seeds}: give only one of them")
    if options.cpu and options.gpus:
        raise UsageError(f"--cpu, --gpus {options.gpus}: give only one of them")
    if isinstance(recipe, ClassificationRecipe) and (options.gpus or 0) > 1:
        raise UsageError(f"--gpus {options.gpus}: a model trains on one; --jobs trains several")
    if options.shards > 1 and not options.executor:
        raise UsageError(f"--shards {options.shards} needs --executor slurm or local")
    if bool(options.tune) != bool(options.tune_updates):
        raise UsageError("--tune LIST and --tune-updates N need each other")
    if options.tune_seeds > 1 and not options.tune:
        raise UsageError(f"--tune-seeds {options.tune_seeds} needs --tune LIST")
    names = {word.partition("=")[0] for word in flags}
    for name in INSTEAD.keys() & names:
        raise UsageError(f"{name} after --: the recipe sets it; give {INSTEAD[name]} before --")
    if options.tune and "--lr" in names:
        raise UsageError("--tune selects the learning rate: remove --lr after --")
    if options.tune and (lengths := names & {"--max-update", "--max-epoch"}):
        instead = "--max-update" if isinstance(recipe, GenerationRecipe) else "--epochs"
        raise UsageError(f"{min(lengths)} after -- would change --tune; give {instead} before --")
    return options


def make_parser(recipe: Recipe, prog: str, defaults: Options) -> argparse.ArgumentParser:
    width = max(20, min(WIDEST, shutil.get_terminal_size().columns - 2))
    values, notes = _describe(recipe, defaults)
    names = max(len(row.name) for row in recipe.rows)
    numbers = max(len(row.paper) for row in recipe.rows)
    lines = ["Rows, with the paper's numbers (--list names them) and the flags that differ:", ""]
    for row in recipe.rows:
        lines.append(f"    {row.name:{names}}  {row.paper:{numbers}}  {row.flags}".rstrip())
    parser = OneLineParser(
        prog=prog,
        usage=f"{prog} [OPTIONS] [-- FLAGS]",
        description=f"{recipe.title}\n\n{recipe.about}",
        epilog="\n".join([*lines, "", notes]),
        formatter_class=lambda prog: Help(prog, max_help_position=20, width=width),
        allow_abbrev=False,
    )
    for field in fields(Options):
        if not field.metadata or not isinstance(recipe, field.metadata.get("only", Recipe)):
            continue
        is_unused = recipe.custom and field.metadata.get("prepares")
        if is_unused or field.name == "small" and not recipe.small:
            continue
        for_argparse = field.metadata.keys() & {"metavar", "type", "choices"}
        settings = {**VALUES.get(field.type, {}), **{k: field.metadata[k] for k in for_argparse}}
        spelled = filter(None, (_flag(field.name), field.metadata.get("also")))
        parser.add_argument(*spelled, help=field.metadata["help"].format(**values), **settings)
    about = "flags of fairseq-train, added to every row's after the recipe's"
    parser.add_argument_group("-- FLAGS", about)
    return parser


def _describe(recipe: Recipe, defaults: Options) -> tuple[dict[str, object], str]:
    """Return the values in the help of a recipe's options, and the notes below them."""
    values: dict[str, object] = {"steps": ",".join(STEPS)}
    data_bin = defaults.root / "data-bin"
    if isinstance(recipe, GenerationRecipe):
        settings = recipe.settings
        values |= {
            "data": f"binarized data (default: {data_bin / settings.corpus}), as written "
            f"by posattn prepare {settings.preparation}",
            "prepare": "prepare the data first if it does not exist",
            "length": settings.max_update or f"{settings.max_epoch} epochs",
            "checkpoint": settings.checkpoint,
            "averaged": settings.averaged,
            "seeds": settings.seeds,
            "gpus": "all of this machine, 1 with --dry-run; results of the CPU are separate",
        }
        regime = settings.regime
        data = f"""\
Other data of fairseq-preprocess --joined-dictionary can be used, on text in subwords, from
{settings.source} to {settings.target}, with splits train, valid and test.
An update has at most {settings.batches} x {settings.max_tokens} tokens on any number of GPUs."""
    else:
        assert isinstance(recipe, ClassificationRecipe)
        values |= {
            "data": "folder with a folder of binarized data for each data set (default: "
            f"{data_bin})",
            "prepare": "prepare missing data first, with GloVe; this downloads some GB",
            "seeds": "those of the file" if recipe.custom else "as many as the paper",
            "gpus": "1 if there is any",
            "datasets": ",".join(dataset.name for dataset in recipe.datasets),
        }
        regime = recipe.regime
        data = """\
The data sets are those of posattn prepare. Word vectors are those of its --glove, with their
number of features; without them word vectors are initialized at random."""
    if recipe.custom:
        data = "The file names the data. With --tiny it is used, too, by tiny models."
    values["out"] = defaults.root / "checkpoints" / recipe.paper / regime
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
