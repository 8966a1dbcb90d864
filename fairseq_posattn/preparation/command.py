"""The command line shared by all preparations, and the commands that it prints at the end."""

import argparse
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from fairseq_posattn.common.cli import end, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.corpus import Flag
from fairseq_posattn.text import manifest

# Characters of --dest that fairseq's commands take for separators.
SEPARATORS = {
    ",": "fairseq-preprocess separates files by commas",
    ":": "fairseq-train separates folders by colons",
}
PAIR_TASKS = {"sentence_prediction", "sentence_pair_prediction"}
# Three checkpoints for any number of epochs; training stops when validation stops improving.
RETENTION = "--no-epoch-checkpoints --keep-best-checkpoints 1 --patience 10"


@dataclass(frozen=True)
class Kind:
    """Data sets that one module prepares."""

    summary: str  # one line for --help
    corpora: dict  # the data sets by name
    module: ModuleType  # has prepare(corpus, options) and add_options(corpus, parser)


def run(kind, arguments=None, prog=None, data_bin=Path("data-bin")):
    """Prepare the data set named on the command line and return the exit status.

    ``kind`` is the :class:`Kind` of data sets to choose from; see :func:`.kinds.prepare`.
    """
    parser = make_parser(kind, prog, data_bin)
    options = parser.parse_args(arguments)
    name = options.dataset
    if options.dest is None:
        options.dest = data_bin / name

    def prepare():
        check_dest(options.dest, options.source)
        corpus = kind.corpora[name].with_options(options)
        check_contents(options.dest, corpus)
        try:
            kind.module.prepare(corpus, options)
        except KeyboardInterrupt:
            program = parser.prog.removesuffix(".py")
            say(f"{program}: interrupted; rerun the same command to resume")
            raise

    return end(parser.prog, prepare, unnamed=options.dest)


def check_dest(dest, source):
    """Raise :exc:`UsageError` if fairseq cannot use the destination, or if it is in the source."""
    for sign, reason in SEPARATORS.items():
        if sign in str(dest):
            raise UsageError(f"--dest {dest}: {reason}; choose a name without {sign!r}")
    if str(dest).startswith("-"):
        raise UsageError(f"--dest {dest}: commands read it as an option; choose another name")
    if os.path.exists(dest) and not os.path.isdir(dest):
        raise UsageError(f"--dest {dest}: is a file; name a folder")
    if source is not None and Path(os.path.realpath(dest)).is_relative_to(os.path.realpath(source)):
        raise UsageError(f"--dest {dest}: lies in --source {source}; choose another folder")


def check_contents(dest, corpus):
    """Raise :exc:`UsageError` if the folder holds data of another task."""
    try:
        present = manifest.read(dest)
    except UsageError:  # preparing the data again replaces a damaged manifest
        return
    if present is None or present.task == corpus.task or {present.task, corpus.task} <= PAIR_TASKS:
        return
    raise UsageError(
        f"--dest {dest}: holds data of --task {present.task} ({present.corpus}), not of --task "
        f"{corpus.task}; choose another folder, or remove it"
    )


def make_parser(kind, prog, data_bin):
    """Return the parser, with a subcommand for each data set."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=kind.summary,
        epilog="'%(prog)s DATASET --help' lists the options. Rerun the same command to resume; "
        "finished stages are not repeated.",
    )
    commands = parser.add_subparsers(dest="dataset", metavar="DATASET", required=True)
    for name, corpus in kind.corpora.items():
        command = commands.add_parser(name, help=corpus.summary, description=corpus.summary)
        if corpus.source is None:
            command.set_defaults(source=None)
        else:
            source = f"{corpus.source} (default: download it)"
            command.add_argument("--source", type=Path, metavar="PATH", help=source)
        default = str(shown(data_bin / name)).replace("%", "%%")
        dest = f"output folder; its text/ holds readable text (default: {default})"
        command.add_argument("--dest", type=Path, metavar="FOLDER", help=dest)
        cores = len(os.sched_getaffinity(0))
        add_count(command, "--jobs", "processes (default: number of cores, %(default)s)", cores)
        add_count(command, "--limit", "use the first N examples of each split, for a quick look")
        force = Flag("--force", "rebuild everything except completed downloads")
        for flag in (force, *corpus.flags):
            command.add_argument(flag.name, action="store_true", help=flag.help)
        kind.module.add_options(corpus, command)
    return parser


def add_count(parser, name, explanation, default=None):
    """Add an option that takes a positive integer."""
    parser.add_argument(name, type=positive, metavar="N", default=default, help=explanation)


def next_recipe(corpus, *options):
    """Print the recipe command that trains on the prepared data."""
    print("next:\n    " + _joined("posattn", "recipe", corpus.recipe, *options))


def next_dataset(corpus, dest):
    """Print the same for a recipe that finds several data sets by their folders' names."""
    if dest.name == corpus.name:
        next_recipe(corpus, "--datasets", corpus.name, "--data", shown(dest.parent))


def next_training(dest, flags, test=None):
    """Print the fairseq-train command for custom data.

    Args:
        dest: folder of the data.
        flags: lines of flags.
        test: for pairs ``(inference command, metric, source side, target side)``: prints the
            commands that process and score the raw test set, too.
    """
    saved = f"checkpoints/{dest.name}"
    lines = [
        f'fairseq-train {shlex.quote(str(shown(dest)))} --user-dir "$(posattn user-dir)"',
        *flags,
        f"{RETENTION} --save-dir {shlex.quote(saved)}",
    ]
    print("next:\n    " + " \\\n        ".join(lines))
    if test is None:
        return
    command, metric, source, target = test
    files = [shown(dest) / f"test.{side}" for side in (source, target)]
    generated = f"{saved}/test.{target}"
    checkpoint = f"{saved}/checkpoint_best.pt"
    language = ["--language", target] if metric == "bleu" else []
    inference = _joined("posattn", command, checkpoint, "--input", files[0])
    print(f"then, on the raw test set:\n    {inference} > {shlex.quote(generated)}")
    named = ["--hypotheses", generated, "--references", files[1], *language]
    print("    " + _joined("posattn", "score", metric, *named))


def shown(path):
    """Return a path relative to the current folder if it lies in it."""
    path = Path(path)
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _joined(*words):
    return shlex.join(map(str, words))
