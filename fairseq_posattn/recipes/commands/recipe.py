"""``posattn recipe``: train and measure the rows of a paper's table."""

import difflib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.figures import NEEDS, can_draw
from fairseq_posattn.common.files import write_json
from fairseq_posattn.recipes import rows, tables
from fairseq_posattn.recipes.asked import Asked
from fairseq_posattn.recipes.classification import AskedClassification
from fairseq_posattn.recipes.devices import devices, gpus_here
from fairseq_posattn.recipes.drawing import draw, draw_curves
from fairseq_posattn.recipes.generation import AskedGeneration
from fairseq_posattn.recipes.options import read_options, what_counts
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.recipe import ClassificationRecipe, GenerationRecipe, Recipe
from fairseq_posattn.recipes.run import Runner
from fairseq_posattn.recipes.tuning import UNKNOWN
from fairseq_posattn.training.curves import Curves
from fairseq_posattn.training.training_log import TrainingLog


def main(
    arguments: Sequence[str] | None = None, prog: str = "posattn recipe", root: Path | None = None
) -> int:
    """Run, or show, what a command line asks of a recipe; returns the exit status.

    Args:
        arguments: the recipe's name and its options; none: all recipes are listed.
        prog: what to call the command.
        root: the checkout, whose data-bin and checkpoints are taken and whose scripts are named;
            None: those of the working directory.

    Raises:
        UsageError: options or data will not do, or a run failed.
    """
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in ("", "-h", "--help"):
        print(_usage(prog))
        if name:
            raise SystemExit(0)
        return 0
    command = f"bash examples/{name}.sh" if root else f"{prog} {name}"
    asked = ask(find(name), rest, command, root or Path())
    if asked.options.list:
        for entry in asked.entries():
            print(entry.table, entry.row, ",".join(entry.metrics), " ".join(entry.paper), sep="\t")
    elif asked.options.table:
        _print_table(asked, command)
    elif asked.options.dry_run:
        _show(asked)
    else:
        _run(asked, command)
    return 0


def find(name: str) -> Recipe:
    """The recipe of this name."""
    if name in RECIPES:
        return RECIPES[name]
    close = difflib.get_close_matches(name, RECIPES, 3, 0.4) or list(RECIPES)
    raise UsageError(f"there is no recipe {name!r}; do you mean one of {', '.join(close)}?")


def ask(recipe: Recipe, arguments: Sequence[str], command: str, root: Path) -> Asked:
    """A recipe as the options ask for it."""
    data_bin, checkpoints = root / "data-bin", root / "checkpoints"
    options = read_options(recipe, arguments, command, data_bin, checkpoints)
    if isinstance(recipe, GenerationRecipe):
        return AskedGeneration(recipe, options, data_bin, checkpoints)
    assert isinstance(recipe, ClassificationRecipe)
    return AskedClassification(recipe, options, data_bin, checkpoints)


def _usage(prog: str) -> str:
    width = max(map(len, RECIPES))
    return "\n".join(
        [
            f"usage: {prog} RECIPE [OPTIONS] [-- FLAGS]",
            "",
            "Train and measure the rows of a table, beside the paper's numbers. Each recipe",
            "explains itself by --help, shows its commands by --dry-run and is tried by --tiny:",
            "",
            *(f"  {name:{width}}  {recipe.title}" for name, recipe in RECIPES.items()),
        ]
    )


def _say(asked: Asked, line: str) -> None:
    print(f"{asked.recipe.table}: {line}", file=sys.stderr, flush=True)


def _show(asked: Asked) -> None:
    """The commands, as they can be typed."""
    runs = asked.runs()
    for step in asked.preparation() if not asked.options.tiny else ():
        print(step.shown())
    for note in asked.notes():
        _say(asked, note)
    tunings = asked.tunings()
    if any(tuning.outcome() is None for tuning in tunings):
        _say(asked, f"--lr {UNKNOWN} stands for the learning rate that validation will choose")
    trials = [run for tuning in tunings for run in tuning.runs]
    for run in (*trials, *runs):
        print(f"\n# {run.name}")
        for step in run.steps:
            if run.trial or step.is_among(asked.options.steps):
                print(step.shown())


def _run(asked: Asked, command: str) -> None:
    options = asked.options
    runner = Runner(asked.recipe.table, options.steps, asked.averages, _cores(asked))
    try:
        _heed_signals(_stop)
        for step in asked.tiny_data() if options.tiny else asked.preparation():
            runner.run_step(step, {})
        asked.require_data(runner.say)
        try:
            asked.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--out {asked.out} cannot be made a folder") from error
        for note in asked.notes():
            runner.say(note)
        here = gpus_here() if options.jobs > 1 and asked.gpus else 0
        places = devices(options.jobs, asked.gpus, here)
        _tune(asked, runner, places)
        runner.run_all(asked.runs(), places)
    except KeyboardInterrupt:
        runner.stop()
        runner.say("stopped; what is finished stays, and the same command goes on from here")
        raise
    finally:
        _heed_signals(signal.SIG_DFL)
    _print_table(asked, command, keep=True)


def _tune(asked: Asked, runner: Runner, places: Sequence[Mapping[str, str]]) -> None:
    """Try the learning rates that are asked for, and keep what comes of it beside the runs."""
    tunings = asked.tunings()
    runner.run_all([run for tuning in tunings for run in tuning.runs], places)
    for tuning in tunings:
        runner.say(tuning.told())
    for entry in asked.entries():
        if entry.tuning:
            entry.folder.mkdir(parents=True, exist_ok=True)
            write_json(entry.folder / "tuning.json", entry.tuning, indent=2)


def _cores(asked: Asked) -> Mapping[str, str]:
    """Small tensors gain nothing from more cores, and models side by side fight for them."""
    options = asked.options
    alone = options.jobs == 1 and not options.tiny
    return {} if alone or "OMP_NUM_THREADS" in os.environ else {"OMP_NUM_THREADS": "1"}


def _heed_signals(terminate: Callable[[int, FrameType | None], Any] | signal.Handlers) -> None:
    """Be stopped by Ctrl-C, in the background of a shell, too, and do this when told to end."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, terminate)


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _print_table(asked: Asked, command: str, keep: bool = False) -> None:
    if counts := what_counts(asked.options):
        command += f" {shlex.join(counts)}"
    found = rows.make_rows(asked.recipe, list(asked.entries()), command, asked.title)
    tables.print_tables(asked.recipe, found)
    if keep:
        path = asked.out / f"{asked.recipe.table}.json"
        rows.keep(path, asked.title, asked.options.tiny, found)
        if can_draw():
            draw(path.with_suffix(".png"), found)
            draw_curves(path.with_name(f"{path.stem}-curves.png"), _trained(asked))
        else:
            print(f"nothing is drawn: {NEEDS}")


def _trained(asked: Asked) -> list[Curves]:
    """What was trained of a recipe's tables; a model that rows have in common is there once."""
    found: dict[Path, Curves] = {}
    for entry in asked.entries():
        group = entry.table.removeprefix(f"{asked.recipe.title}: ")
        for log in sorted(entry.folder.glob("*seed*/train.log")):
            name = asked.recipe.rows[0].name if rows.is_locality(asked.recipe) else entry.row
            found.setdefault(log, Curves(name, TrainingLog(log), group))
    return list(found.values())
