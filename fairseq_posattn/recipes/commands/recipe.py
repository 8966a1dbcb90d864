"""``posattn recipe``: train and measure the rows of a paper's table."""

import difflib
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.figures import NEEDS, can_draw, write_picture
from fairseq_posattn.common.files import write_json
from fairseq_posattn.common.progress import say
from fairseq_posattn.recipes import custom
from fairseq_posattn.recipes.classification import ClassificationPlan
from fairseq_posattn.recipes.executors import JobRunner, resources
from fairseq_posattn.recipes.generation import GenerationPlan
from fairseq_posattn.recipes.options import read_options, result_words
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.plan import Plan, assign_gpus, count_gpus
from fairseq_posattn.recipes.recipe import ClassificationRecipe, GenerationRecipe, Recipe
from fairseq_posattn.recipes.runner import Runner
from fairseq_posattn.recipes.tuning import UNKNOWN
from fairseq_posattn.training.curves import Curves, plot_curves
from fairseq_posattn.training.training_log import TrainingLog

ABOUT = """\
usage: {prog} RECIPE [OPTIONS] [-- FLAGS]
       {prog} --example > FILE.yaml
       {prog} FILE.yaml [OPTIONS] [-- FLAGS]
       {prog} --verify FILE

Train and measure the rows of a paper's table, and print them beside the paper's
numbers; or those of a table of your own, a file of which --example prints an
example with all keys. RECIPE --help explains a recipe, --dry-run prints its
commands and --tiny runs a small form of it. --verify recomputes the scores and p
values of a file that --bundle wrote. Recipes:
"""


def main(
    arguments: Sequence[str] | None = None, prog: str = "posattn recipe", root: Path | None = None
) -> int:
    """Run or show a recipe; return the exit status.

    Without arguments all recipes are listed. ``root`` is a checkout whose data-bin, checkpoints and
    scripts are used; None uses the working directory.
    """
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or [""]
    if name in ("", "-h", "--help", "--list"):
        width = max(map(len, RECIPES))
        print(ABOUT.format(prog=prog))
        print("\n".join(f"  {table:{width}}  {recipe.title}" for table, recipe in RECIPES.items()))
        return 0
    if name == "--example":
        print(custom.example(), end="")
        return 0
    if name == "--verify":
        return _verify(rest, f"{prog} --verify")
    command = f"bash examples/{name}.sh" if root else f"{prog} {name}"
    recipe = find(name)
    if recipe.custom:
        command = f"{'bash examples/recipe.sh' if root else prog} {shlex.quote(name)}"
    plan = make_plan(recipe, rest, command, root or Path())
    if recipe.custom and not (plan.options.list or plan.options.table):
        custom.check(Path(name), plan)
    if plan.options.list:
        for entry in plan.entries():
            print(entry.table, entry.row, ",".join(entry.metrics), " ".join(entry.paper), sep="\t")
    elif plan.options.table:
        _print_table(plan, command)
    elif plan.options.dry_run:
        _show(plan)
    else:
        _run(plan, command)
    return 0


def _verify(arguments: Sequence[str], prog: str) -> int:
    about = "Recompute scores and p values from the outputs in an archive; status 1 if one differs "
    about += "or none can be recomputed."
    parser = cli.make_parser(about, prog)
    parser.add_argument("file", type=Path, help="archive that --bundle wrote")
    file = parser.parse_args(arguments).file
    from fairseq_posattn.recipes.bundle import verify  # here, because it imports NumPy

    return verify(file)


def find(name: str) -> Recipe:
    if name in RECIPES:
        return RECIPES[name]
    if name.endswith((".yaml", ".yml")):
        return custom.read(Path(name))
    close = difflib.get_close_matches(name, RECIPES, 3, 0.4)
    known = f"do you mean {', '.join(close)}?" if close else "`posattn recipe` lists them"
    or_file = "a table of your own is a file that ends in .yaml"
    raise UsageError(f"there is no recipe {name!r}; {known} ({or_file})")


def make_plan(recipe: Recipe, arguments: Sequence[str], command: str, root: Path) -> Plan:
    options = read_options(recipe, arguments, command, root)
    recipe = recipe.small or recipe if options.small else recipe
    if isinstance(recipe, GenerationRecipe):
        return GenerationPlan(recipe, options)
    assert isinstance(recipe, ClassificationRecipe)
    return ClassificationPlan(recipe, options)


def _show(plan: Plan) -> None:
    for step in plan.preparation() if not plan.options.tiny else ():
        print(step.shown())
    notes, tunings = plan.notes(), plan.tunings()
    if any(tuning.outcome() is None for tuning in tunings):
        notes.append(f"--lr {UNKNOWN} stands for the learning rate that validation will select")
    for note in notes:
        say(f"{plan.recipe.table}: {note}")
    if plan.options.executor:
        wanted = resources(plan.options, plan.gpus)
        words = " ".join(f"{name}={value}" for name, value in wanted.items())
        print(f"\n# each of the following is a job of {plan.options.executor}: {words}")
    for run in (*(run for tuning in tunings for run in tuning.runs), *plan.runs()):
        print(f"\n# {run.name}")
        for step in run.steps:
            if run.trial or step.is_among(plan.options.steps):
                print(step.shown())


def _run(plan: Plan, command: str) -> None:
    options = plan.options
    # One thread for tiny models, which gain nothing from more, and for concurrent ones.
    single = options.jobs == 1 and not options.tiny or "OMP_NUM_THREADS" in os.environ
    environment = {} if single else {"OMP_NUM_THREADS": "1"}
    settings = plan.recipe.table, options.steps, plan.averages, environment
    runner = JobRunner(plan, *settings) if options.executor else Runner(*settings)
    try:
        # SIGINT, too: a shell's background process ignores it.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        for step in plan.tiny_data() if plan.generates else plan.preparation():
            runner.run_step(step, {})
        plan.require_data(runner.say)
        plan.out.mkdir(parents=True, exist_ok=True)
        for note in plan.notes():
            runner.say(note)
        available = count_gpus() if options.jobs > 1 and plan.gpus else 0
        devices = assign_gpus(options.jobs, plan.gpus, available)
        _tune(plan, runner, devices)
        try:
            runner.run_all(plan.runs(), devices)
        except UsageError:
            _print_table(plan, command, keep=True)
            raise
    except KeyboardInterrupt:
        runner.processes.stop()
        runner.say("stopped; the same command continues from here")
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _print_table(plan, command, keep=True)


def _tune(plan: Plan, runner: Runner, devices: Sequence[Mapping[str, str]]) -> None:
    """Run the trials of learning rates, and write their outcomes beside the runs."""
    tunings = plan.tunings()
    runner.run_all([run for tuning in tunings for run in tuning.runs], devices)
    for tuning in tunings:
        runner.say(tuning.summary())
    for entry in plan.entries():
        if entry.tuning:
            entry.folder.mkdir(parents=True, exist_ok=True)
            write_json(entry.folder / "tuning.json", entry.tuning, indent=2)


def _print_table(plan: Plan, command: str, keep: bool = False) -> None:
    """Print the table; with ``keep`` write it and draw its figures, too."""
    from fairseq_posattn.recipes import rows, tables  # here, because they import NumPy

    if words := result_words(plan.options):
        command += f" {shlex.join(words)}"
    entries = list(plan.entries())
    made = rows.make_rows(plan.recipe, entries, command, plan.title)
    if changed := next(rows.runs_of_other_data(entries), ""):
        say(f"{plan.recipe.table}: warning: {changed}")
    if flags := plan.options.flags:  # a table without them has the same file
        for row in made:
            row["note"] = f"further flags of all rows: {shlex.join(flags)}"
    tables.print_tables(made)
    if plan.options.bundle:
        from fairseq_posattn.recipes.bundle import write_bundle

        write_bundle(Path(plan.options.bundle), plan, made)
    if not keep:
        return
    path = plan.out / f"{plan.recipe.table}.json"
    write_json(path, {"title": plan.title, "tiny": plan.options.tiny, "rows": made}, indent=2)
    print(f"table: {path}")
    for end in (".png", "-curves.png"):  # those of the table replaced
        path.with_name(f"{path.stem}{end}").unlink(missing_ok=True)
    if not can_draw():
        print(f"no figures: {NEEDS}")
        return
    if figure := tables.figure_of(made):
        write_picture(figure, str(path.with_suffix(".png")))
        print(f"figure: {path.with_suffix('.png')}")
    curves: dict[Path, Curves] = {}  # each model's once
    is_locality = getattr(plan.recipe, "locality", None) is not None
    for entry in plan.entries():
        group = entry.table.removeprefix(f"{plan.recipe.title}: ")
        name = plan.recipe.rows[0].name if is_locality else entry.row
        for log in sorted(entry.folder.glob("*seed*/train.log")):
            curves.setdefault(log, Curves(name, TrainingLog(log), group))
    if curves:
        drawn = path.with_name(f"{path.stem}-curves.png")
        write_picture(plot_curves(list(curves.values())), str(drawn))
        print(f"learning curves: {drawn}")
