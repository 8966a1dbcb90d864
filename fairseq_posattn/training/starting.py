"""Start of a training from the weights of a trained model: ``posattn train --from``."""

import os
import shlex
from argparse import Namespace
from collections.abc import Collection, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairseq_posattn.common.cli import value_of, without
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import find_checkpoint, read_checkpoint
from fairseq_posattn.compat.checkpoints.settings import saved_group
from fairseq_posattn.compat.checks import flag
from fairseq_posattn.compat.matching import LAST, free_options
from fairseq_posattn.text.manifest import LIKE
from fairseq_posattn.text.vocabulary import read_symbols
from fairseq_posattn.training.models.registration import OPTION
from fairseq_posattn.training.registered import (
    ARCH_MODEL_NAME_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    options,
)
from fairseq_posattn.training.settings import Prepared, Size

SLOWER = 10  # the rate is this fraction of that of a training from scratch
WARMUP = 100  # updates until Adam's averages are usable
GROUP = "Model-specific configuration"  # of fairseq's parser
# Flags of a size that are replaced.
SCHEDULE = ("--lr", "--lr-scheduler", "--warmup-updates")


class Start:
    """The trained model that a training starts from, or the checkpoint in ``save_dir``."""

    def __init__(self, source: Path, prepared: Prepared, save_dir: Path) -> None:
        self.name, last = f"--from {source}", save_dir / LAST
        self.is_resumed = last.is_file()
        if os.path.realpath(save_dir) in map(os.path.realpath, (source, source.parent)):
            raise UsageError(f"{self.name}: is in the folder of this training; name a --save-dir")
        # The model of a training that is resumed is that of its start, which may be gone.
        self.path = str(last) if self.is_resumed else find_checkpoint(source)
        if not os.path.isfile(self.path):
            raise UsageError(f"{self.name}: no such checkpoint or folder of checkpoints")
        state = read_checkpoint(self.path, device="meta")
        task = saved_group(state, "task")
        task_name, wanted = task.get("_name") or task.get("task"), prepared.manifest.task
        if task_name != wanted:
            data = f"{prepared.folder} of {wanted}; name a model of its task"
            raise UsageError(f"{self.name}: is of task {task_name}, {data}")
        self._require_dictionaries(prepared, task)
        self.rate = float(saved_group(state, "optimization")["lr"][0])
        self.arch, self.flags, self.names = model_flags(self.path, saved_group(state, "model"))

    def _require_dictionaries(self, prepared: Prepared, task: dict[str, Any]) -> None:
        """Raise UsageError if a dictionary of the model, where it is known, is not the data's.

        fairseq's own checkpoints name the folder of their dictionaries only.
        """
        folders = Path(self.path).parent, Path(str(task.get("data")).partition(":")[0])
        languages = task.get("source_lang"), task.get("target_lang")
        for side, language in zip(prepared.manifest.languages, languages, strict=False):
            new = prepared.folder / f"dict.{side}.txt"
            known = (folder / f"dict.{language or side}.txt" for folder in folders)
            old = next(filter(Path.is_file, known), None)
            if old and new.is_file() and read_symbols(old) != read_symbols(new):
                fix = f"{LIKE} {shlex.quote(str(old.parent))}"
                raise UsageError(f"{self.name}: {old} differs from {new}; {fix}")

    def apply(self, size: Size) -> Size:
        """Return a size with the checkpoint's model and a smaller rate."""
        words = shlex.split(size.flags)
        _, actions = model_options(size.arch)  # fairseq's models may lack them
        self.names += [action.option_strings[0] for action in actions]
        rate = min(float(value_of(words, "--lr")), self.rate) / SLOWER
        kept = without(words, [*self.names, *SCHEDULE])
        rate = self.rate if self.is_resumed else rate
        schedule = ["--lr-scheduler", "fixed", "--lr", f"{rate:g}"]
        if value_of(words, "--warmup-updates"):
            schedule += ["--warmup-updates", str(WARMUP)]
        return size._replace(arch=self.arch, flags=shlex.join([*kept, *self.flags, *schedule]))

    def fit(self, words: Sequence[str]) -> list[str]:
        """Return the flags of the data, without those of a model, and the flag of the start."""
        restored = [] if self.is_resumed else ["--finetune-from-model", self.path]
        return [*without(words, self.names), *restored]

    def describe(self, command: Sequence[str]) -> str:
        """Return a line about the start of a fairseq-train command."""
        if self.is_resumed:
            return f"{self.path} is resumed; {self.name} applies only without it"
        rate = f"--lr {value_of(command, '--lr')}"
        return f"starts from {self.path}: its weights and model, a new optimizer, the rate {rate}"


def model_flags(path: str, saved: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    """Return a model's architecture, its flags that differ from it, and all flags of models."""
    name = saved.get("arch") or saved["_name"]
    if name not in ARCH_MODEL_NAME_REGISTRY:
        raise UsageError(f"{path}: --arch {name} is unknown; train with fairseq-train")
    preset = getattr(MODEL_DATACLASS_REGISTRY.get(name), "preset_of", None)
    bases = (base for base, config in MODEL_DATACLASS_REGISTRY.items() if config is preset)
    for arch in (name, next(bases, ARCH_MODEL_NAME_REGISTRY[name])):
        args, actions = model_options(arch)
        config = MODEL_DATACLASS_REGISTRY.get(arch)
        defaults = {field.name: field.default for field in fields(config)} if config else {}
        differing = list(_differing(actions, saved, defaults | vars(args), free_options(arch)))
        if all(value is not False for _, value in differing):  # no flag unsets what a preset sets
            break
    words = [
        word
        for option, value in differing
        for word in ([flag(option)] if value is True else [flag(option), str(value)])
    ]
    return arch, words, [action.option_strings[0] for action in actions]


def model_options(arch: str) -> tuple[Namespace, Sequence[Any]]:
    """Return the defaults of an architecture's command line, and the options of its models."""
    parser = options.get_training_parser()
    args = options.parse_args_and_arch(parser, ["data", "--arch", arch])
    [actions] = (g._group_actions for g in parser._action_groups if g.title == GROUP)
    return args, actions


def foreign(words: Collection[str], arch: str, other: str) -> list[str]:
    """Return the options of an architecture's models in ``words`` if those of another lack one."""
    if other not in ARCH_MODEL_NAME_REGISTRY:  # it may be the user's
        return []
    names, known = ([a.option_strings[0] for a in model_options(n)[1]] for n in (arch, other))
    used = [name for name in names if name in words]
    return [] if set(used) <= set(known) else used


def _differing(
    actions: Sequence[Any], saved: dict[str, Any], defaults: dict[str, Any], free: Collection[str]
) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the saved options that are not the defaults."""
    for name in (action.dest for action in actions):
        value, default = saved.get(name), defaults.get(name)
        if other := OPTION.fullmatch(str(default)):
            default = saved.get(other[1])
        is_free = name in free and name != "language_model_config"
        if value is not None and not is_free and value != default and (value or default):
            yield name, value
