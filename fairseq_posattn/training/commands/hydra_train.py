"""Train with the settings of a YAML file, as fairseq-hydra-train, but without its warnings.

    %(prog)s dman/iwslt14 optimization.max_update=1000

is equivalent to

    fairseq-hydra-train --config-dir "$(posattn user-dir)/training/yaml/dman" \\
        --config-name iwslt14 common.user_dir="$(posattn user-dir)" optimization.max_update=1000

Further arguments go to Hydra: NAME=VALUE changes a setting of fairseq or the file, ++NAME=VALUE
also adds one, such as ++model.encoder_sublayers=dman,ffn; --cfg job prints all. With -m,
comma-separated values are trained one after the other, each into a separate folder:

    %(prog)s dman/iwslt14 -m common.seed=1,2 \\
        'checkpoint.save_dir=checkpoints/seeds/${hydra:job.num}'
"""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError

PLUGIN = Path(__file__).resolve().parents[2]
PACKAGED = PLUGIN / "training/yaml"  # the papers' settings
USER_DIR = "common.user_dir"
SAVE_DIR = "checkpoint.save_dir"
MULTIRUN = ("-m", "--multirun")
# Hydra settings that a file may contain. Others can run code or read other files.
HYDRA = {"job": ("chdir",), "run": ("dir",), "sweep": ("dir", "subdir")}
PACKAGE = re.compile(rb"^\s*#\s*@package\s+(?!(_global_|_group_)\s*$)", re.MULTILINE)


def packaged() -> list[str]:
    """Return the names of the packaged files."""
    names = (path.relative_to(PACKAGED).with_suffix("") for path in PACKAGED.glob("*/*.yaml"))
    return sorted(map(str, names))


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    parser = cli.make_parser(__doc__, prog)
    text = f"settings by fairseq's names, or those of a paper: {', '.join(packaged())}"
    parser.add_argument("file", type=Path, metavar="FILE.yaml|NAME", help=text)
    text = "further settings, for Hydra"
    rest: dict[str, Any] = {"nargs": argparse.REMAINDER, "metavar": "NAME=VALUE", "help": text}
    # argparse would name it if the file is missing
    parser.add_argument("settings", **rest).required = False
    return cli.run(parser, train, arguments)


def train(args: argparse.Namespace) -> None:
    """Run fairseq-hydra-train with the file and further settings."""
    words = build_arguments(args.file, args.settings)
    from fairseq_posattn.compat.patching import quietly
    from fairseq_posattn.training.plugin import register

    with quietly():
        from fairseq_cli import hydra_train
    register()  # after that import, whose modules some patches change
    sys.argv = ["fairseq-hydra-train", *words]
    hydra_train.cli_main()


def build_arguments(file: Path, settings: Sequence[str]) -> list[str]:
    """Return the arguments of fairseq-hydra-train; refuse a file that could run code."""
    if str(file) in packaged():
        file = PACKAGED / f"{file}.yaml"
    if not file.is_file():
        raise UsageError(f"{file}: no such file; packaged names are {', '.join(packaged())}")
    if file.suffix != ".yaml":
        raise UsageError(f"{file}: must end in .yaml for Hydra; rename it")
    checkpoint = _read_settings(file).get("checkpoint", {})
    several = [word for word in settings if word in MULTIRUN]
    settings = [word for word in settings if word not in MULTIRUN]
    overrides = {word.lstrip("+").partition("=")[0]: word.partition("=")[2] for word in settings}
    if several and isinstance(checkpoint, dict):
        save_dir = overrides.get(SAVE_DIR, str(checkpoint.get("save_dir", "checkpoints")))
        if "${" not in save_dir and "," not in save_dir:
            fix = f"give '{SAVE_DIR}={save_dir}/${{hydra:job.num}}'"
            shared = f"all trainings would share {save_dir}, each resuming the one before"
            raise UsageError(f"-m: {shared}; {fix}")
    # Hydra does not read settings on both sides of a flag.
    words = ["--config-dir", str(file.parent), "--config-name", file.stem, *several]
    if USER_DIR not in overrides:
        words.append(_assigned(USER_DIR, PLUGIN))
    return [*words, *(settings if several else map(_quoted, settings))]


def _quoted(word: str) -> str:
    """Quote a value that Hydra cannot read, or takes for several, as in ``san,ffn``."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import ChoiceSweep
    from hydra.errors import HydraException

    name, equals, text = word.partition("=")
    try:
        value = OverridesParser.create().parse_override(word).value()
        is_text = isinstance(value, ChoiceSweep) and value.simple_form
    except HydraException:
        is_text = bool(equals) and word[0] != "-"
    return _assigned(name, text) if is_text else word


def _assigned(name: str, value: object) -> str:
    text = str(value).replace("\\", "\\\\").replace("'", "\\'")
    return f"{name}='{text}'"


def _read_settings(file: Path) -> dict[Any, Any]:
    """Return a file's settings, checkpoint None if unreadable; UsageError if they are dangerous."""
    from omegaconf import OmegaConf  # imported late: --help needs neither

    try:
        settings = OmegaConf.to_container(OmegaConf.load(file))
    except Exception:  # Hydra reads it in the same way, and reports the error
        return {"checkpoint": None}
    if not isinstance(settings, dict):
        return {"checkpoint": None}
    if PACKAGE.search(file.read_bytes()):
        raise UsageError(f"{file}: @package: settings files have none; remove the line")
    if "defaults" in settings:
        raise UsageError(f"{file}: defaults: write the settings of other files into this one")
    hydra = settings.get("hydra") or {}
    groups: Any = hydra.items() if isinstance(hydra, dict) else [(hydra, None)]
    for group, values in groups:
        for name in values if isinstance(values, dict) else [""]:
            if name not in HYDRA.get(group, ()) or isinstance(values[name], (dict, list)):
                setting = f"hydra.{group}{name and '.'}{name}"
                fix = "which could run code; remove it, or give it on the command line"
                raise UsageError(f"{file}: {setting}: a file must not set it, {fix}")
    return settings
