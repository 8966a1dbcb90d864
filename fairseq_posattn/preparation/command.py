"""The command line that all preparations have in common."""

import argparse
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from fairseq_posattn.common.cli import end, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say
from fairseq_posattn.text import manifest


@dataclass(frozen=True)
class Kind:
    """Data sets that are prepared alike.

    Attributes:
        summary: one line for ``--help``.
        corpora: by name.
        module: has ``prepare(corpus, options)`` and ``add_options(corpus, parser)``.
    """

    summary: str
    corpora: dict
    module: ModuleType


def run(kind, arguments=None, prog=None, data_bin=Path("data-bin")):
    """Prepare the data set that the command line names; returns the exit status.

    Args:
        kind: the :class:`Kind` of data sets to choose from.
        arguments: of the command line.
        prog: what to call the command.
        data_bin: the folder of all data sets, each of which is in it under its name.
    """
    parser = make_parser(kind, prog, data_bin)
    options = parser.parse_args(arguments)
    name = options.dataset
    if options.dest is None:
        options.dest = data_bin / name

    def prepare():
        check_dest(options.dest, options.source)
        corpus = kind.corpora[name].chosen(options)
        check_contents(options.dest, corpus)
        try:
            kind.module.prepare(corpus, options)
        except KeyboardInterrupt:
            program = parser.prog.removesuffix(".py")
            say(f"{program}: interrupted; the same command goes on from here")
            raise

    return end(parser.prog, prepare, unnamed=options.dest)


def check_dest(dest, source):
    """Refuse a destination that fairseq's commands could not be given, or that is the source.

    Raises:
        UsageError: says which, and why.
    """
    path = str(dest)
    if not path.isprintable():
        raise UsageError(f"--dest {ascii(path)}: fairseq takes printable names in UTF-8 only")
    for sign, reason in (
        (",", "fairseq-preprocess takes what stands between commas for several files"),
        (":", "fairseq-train takes what stands between colons for several folders"),
    ):
        if sign in path:
            raise UsageError(f"--dest {path}: {reason}; give a name without {sign!r}")
    if os.path.exists(dest) and not os.path.isdir(dest):
        raise UsageError(f"--dest {path} is a file: name a folder")
    if path.startswith("-"):
        raise UsageError(f"--dest {path}: commands take it for an option; give another name")
    if source is not None and Path(os.path.realpath(dest)).is_relative_to(os.path.realpath(source)):
        raise UsageError(
            f"--dest {path} lies in --source {source}: what is made would be among what it is made "
            "of; give another --dest"
        )


def check_contents(dest, corpus):
    """Refuse a folder with data for something else, part of which would stay beside the new.

    Raises:
        UsageError: names what there is.
    """
    try:
        told = manifest.read(dest)
    except UsageError:  # preparing the data again mends it
        return
    pairs = ("sentence_prediction", "sentence_pair_prediction")
    if told is not None and told.task != corpus.task and not {told.task, corpus.task} <= {*pairs}:
        raise UsageError(
            f"--dest {dest} holds data of --task {told.task} ({told.corpus}), and this is for "
            f"--task {corpus.task}: give another --dest, or remove it"
        )


def make_parser(kind, prog, data_bin):
    """The parser, with a subcommand for each data set."""
    parser = argparse.ArgumentParser(
        prog=prog,
        description=kind.summary,
        epilog="'%(prog)s DATASET --help' tells of the options. What is finished is not done "
        "again, and a run that was stopped goes on where it was.",
    )
    commands = parser.add_subparsers(dest="dataset", metavar="DATASET", required=True)
    for name, corpus in kind.corpora.items():
        command = commands.add_parser(name, help=corpus.summary, description=corpus.summary)
        if corpus.source is None:
            command.set_defaults(source=None)
        else:
            command.add_argument(
                "--source",
                type=Path,
                metavar="PATH",
                help=f"{corpus.source} (default: download it)",
            )
        command.add_argument(
            "--dest",
            type=Path,
            metavar="FOLDER",
            help=f"where the data goes; readable text is then in its text/ "
            f"(default: {_escaped(shown(data_bin / name))})",
        )
        command.add_argument(
            "--jobs",
            type=positive,
            metavar="N",
            default=len(os.sched_getaffinity(0)),
            help="processes (default: %(default)s, the cores that there are)",
        )
        command.add_argument(
            "--force", action="store_true", help="do it again, all but finished downloads"
        )
        command.add_argument(
            "--limit",
            type=positive,
            metavar="N",
            help="take only the first N examples of each split, for a quick look",
        )
        if corpus.flag:
            command.add_argument(corpus.flag.name, action="store_true", help=corpus.flag.help)
        kind.module.add_options(corpus, command)
    return parser


def next_recipe(corpus, *options):
    """Print the command that trains on what was prepared, ready to be copied."""
    words = ["posattn", "recipe", corpus.recipe, *options]
    print("next:\n    " + " ".join(shlex.quote(str(word)) for word in words))


def next_dataset(corpus, dest):
    """The same for a recipe of several data sets, which finds each under its name."""
    if dest.name == corpus.name:
        next_recipe(corpus, "--datasets", corpus.name, "--data", shown(dest.parent))


def shown(path):
    """A path as short as it can be typed from here."""
    path = Path(path)
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _escaped(path):
    """A path as argparse takes it in a help text."""
    return str(path).replace("%", "%%")
