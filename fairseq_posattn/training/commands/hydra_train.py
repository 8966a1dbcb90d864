"""Train by the settings in a YAML file, as fairseq-hydra-train does, but without its warnings.

    %(prog)s examples/dman/iwslt14.yaml optimization.max_update=1000

does what this does, which warns about fairseq itself before the plugin is loaded:

    fairseq-hydra-train --config-dir examples/dman --config-name iwslt14 \\
        common.user_dir="$(posattn user-dir)" optimization.max_update=1000

What comes after the file goes to Hydra: NAME=VALUE changes a setting that fairseq or the file has,
++NAME=VALUE also one that they do not name, such as one of the model; --cfg job prints them all.
With -m values with commas between are trained one after the other, each into a folder of its own:

    %(prog)s examples/dman/iwslt14.yaml -m common.seed=1,2 \\
        'checkpoint.save_dir=checkpoints/seeds/${hydra:job.num}'
"""

import argparse
import sys
from functools import partial
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError

PLUGIN = Path(__file__).resolve().parent
USER_DIR = "common.user_dir"
SAVE_DIR = "checkpoint.save_dir"
MULTIRUN = ("-m", "--multirun")


def make_parser(prog=None):
    parser = cli.make_parser(__doc__, prog)
    parser.add_argument("file", type=Path, metavar="FILE.yaml", help="settings, by fairseq's names")
    settings = parser.add_argument(
        "settings", nargs=argparse.REMAINDER, metavar="NAME=VALUE", help="and others, for Hydra"
    )
    settings.required = False  # as argparse would say where there is no file
    return parser


def main(arguments=None, prog=None):
    """Train; returns the exit status."""
    parser = make_parser(prog)
    args = parser.parse_args(arguments)  # first, so that --help needs no PyTorch
    return cli.end(parser.prog, partial(train, args.file, args.settings))


def train(file, settings):
    """Hand the file, and what else is said, to fairseq's own program."""
    words = hydra_words(file, settings)
    from fairseq_posattn.compat.quiet import quietly
    from fairseq_posattn.training.plugin import register

    with quietly():
        from fairseq_cli import hydra_train
    register()  # after that import, which brings what some mends are for
    sys.argv = ["fairseq-hydra-train", *words]
    hydra_train.cli_main()


def hydra_words(file, settings):
    """The arguments of fairseq-hydra-train.

    Raises:
        UsageError: there is no such file, or Hydra would not find it; or several trainings would
            go into one folder, where the second goes on from what the first has left.
    """
    if not file.is_file():
        raise UsageError(f"{file}: no such file")
    if file.suffix != ".yaml":
        raise UsageError(f"{file}: Hydra reads files whose names end in .yaml: rename it")
    several = [word for word in settings if word in MULTIRUN]
    settings = [word for word in settings if word not in MULTIRUN]
    save_dir = _save_dir(file, settings) if several else ""
    if save_dir and "${" not in save_dir and "," not in save_dir:
        raise UsageError(
            f"-m: all would be trained into {save_dir}, each from where the one before ended; "
            f"give '{SAVE_DIR}={save_dir}/${{hydra:job.num}}'"
        )
    # Settings on both sides of a flag are not all read.
    words = ["--config-dir", str(file.parent), "--config-name", file.stem, *several]
    if not any(_name(word) == USER_DIR for word in settings):
        path = str(PLUGIN).replace("\\", "\\\\").replace("'", "\\'")
        words.append(f"{USER_DIR}='{path}'")
    return [*words, *settings]


def _name(setting):
    return setting.lstrip("+").partition("=")[0]


def _save_dir(file, settings):
    """Where is trained; "" of a file of which Hydra says what is wrong with it."""
    given = [word.partition("=")[2] for word in settings if _name(word) == SAVE_DIR]
    if given:
        return given[-1]
    from yaml import YAMLError, safe_load  # only here: --help does without

    try:
        found = safe_load(file.read_bytes())
        return str((found or {}).get("checkpoint", {}).get("save_dir", "checkpoints"))
    except (YAMLError, AttributeError):
        return ""
