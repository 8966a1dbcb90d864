"""Checkpoints whose model is not that of the run: options keep their meaning, or one line says why.

Options that an older checkpoint lacks get the default of the model without a preset, as they had.
"""

import contextlib
import logging
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from typing import Any

from fairseq import utils

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.compat.checkpoints.settings import saved_group
from fairseq_posattn.compat.checks import config_of_model, declared_flags, flag
from fairseq_posattn.text.manifest import or_like

logger = logging.getLogger(__name__)

LAST = "checkpoint_last.pt"  # the default value of --restore-file

# fairseq's options that do not change a model's result. Other models declare theirs as ``free``.
FREE = {"_name", "checkpoint_activations", "offload_activations", "min_params_to_wrap"}
FREE |= {"encoder_embed_path", "decoder_embed_path"}
# Names of options that decide which weights a model has. Others are declared as ``structural``.
STRUCTURE = (
    *("arch", "num_classes", "*layers", "*_dim", "*attention_heads", "share_*"),
    *("*learned_pos", "*normalize_before", "layernorm_embedding"),
)

# Options of a task that add tokens to each text. Most commands do not read them from a checkpoint.
FIRST_TOKENS = {"add_bos_token", "encoder_langtok", "decoder_langtok", "lang_tok_style"}


def free_options(arch: str | None) -> set[str]:
    """Return the options of an architecture that do not change a trained model's result."""
    declared = declared_flags({"arch": arch}).values()
    return FREE | {option.name for option in declared if option.metadata.get("free")}


def is_structural(name: str, arch: str | None) -> bool:
    """Return whether an option of an architecture decides which weights a model has."""
    option = declared_flags({"arch": arch}).get(name)
    if option is not None and option.metadata.get("structural"):
        return True
    return any(fnmatchcase(name, pattern) for pattern in STRUCTURE)


def earlier_values(arch: str | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are missing in a checkpoint, or have an earlier preset's value."""
    preset = config_of_model(arch)
    config = getattr(preset, "preset_of", None)
    if config is None:
        return {}
    defaults = {option.name: option.default for option in fields(config)}
    changed = (option.name for option in fields(preset) if option.default != defaults[option.name])
    missing = {name: defaults[name] for name in changed if name not in options}
    presets = config.earlier_presets.items()
    earlier = (name for name, values in presets if options.get(name) in values)
    return missing | {name: options[name] for name in earlier}


def complete(state: dict[str, Any]) -> None:
    """Add the options that a checkpoint lacks, as its model was without them."""
    options = saved_group(state, "model")
    options.update(earlier_values(options.get("_name") or options.get("arch"), options))


def keep_trained_options(cfg: Any) -> None:
    """Keep the options of the resumed checkpoint, whatever presets say now; log others."""
    path, name = file_to_train_on(cfg.checkpoint), getattr(cfg.model, "_name", None)
    config = config_of_model(name)
    if path is None or not getattr(config, "of_plugin", False):
        return
    try:
        trained = saved_group(read_checkpoint(path, device="meta"), "model")
    except (UsageError, OSError):  # fairseq reports it later
        return
    model, known, free = cfg.model, config.__dataclass_fields__, free_options(name)
    for option, value in earlier_values(name, trained).items():
        if option in known and model[option] == known[option].default != value:
            model[option] = value
            why = "has an earlier default of" if option in trained else "lacks"
            logger.info(f"{path} {why} {option}, which stays {value!r}")
    for option in known:
        if option in trained and option not in free and str(trained[option]) != str(model[option]):
            before = f"{path} was trained with {flag(option)} {trained[option]}"
            logger.warning(f"{before}; training continues with {model[option]}")


def file_to_train_on(cfg: Any) -> str | None:
    """Return the existing file that fairseq will restore, or None; of shards the first."""
    last = cfg.restore_file == LAST
    restored = os.path.join(cfg.save_dir, LAST) if last else cfg.restore_file or ""
    initial = (getattr(cfg, "continue_once", None), cfg.finetune_from_model) if last else ()
    endings = (f"{cfg.checkpoint_suffix or ''}{shard}.pt" for shard in ("", "-shard0"))
    names = (*(restored.replace(".pt", ending) for ending in endings), *initial)
    return next((name for name in names if name and os.path.isfile(name)), None)


VOCABULARY = re.compile(
    r"size mismatch for \S*(?:embed_tokens|output_projection|embed_out)\S*: "
    r"copying a param with shape \S*\[(\d+), (\d+)\]\) from checkpoint, "
    r"the shape in current model is \S*\[(\d+), \2\]"
)
DATA = "name the data that it was trained on"
WEIGHT = re.compile(r"size mismatch for (\S+): .*|(?:Missing|Unexpected) key\(s\).*?\"(\S+)\"")


@contextlib.contextmanager
def report_difference_in_training(trainer: Any, filename: str) -> Iterator[None]:
    """Report in one line how a checkpoint differs from the run; fairseq prints all weights."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        weights = str(error).startswith("Cannot load model parameters from checkpoint")
        reason = error.__context__ if weights else error
        if isinstance(reason, UsageError):
            named = str(filename) in str(reason)
            raise UsageError(str(reason) if named else f"{filename}: {reason}") from error
        if weights:
            what = describe_difference(filename, str(reason), trainer.task.cfg, trainer.cfg.model)
            if DATA not in what:
                what += "; train with its settings, or give another checkpoint or --save-dir"
            raise UsageError(f"{filename} {what}") from None
        what = f"its weights or optimizer state do not fit these flags ({in_one_line(error)})"
        fix = "for its weights alone, give --finetune-from-model and an empty --save-dir"
        raise UsageError(f"{filename} cannot be trained on: {what}; {fix}") from error


def report_difference_in_use(
    load: Any, filenames: Sequence[str], overrides: dict[str, Any] | None, task: Any, *args: Any
) -> Any:
    """Report the file of an ensemble that differs, which fairseq does not name."""
    try:
        loaded = load(filenames, overrides, task, *args)
    except RuntimeError as error:
        if "Error(s) in loading state_dict" not in str(error):
            raise
        if len(filenames) > 1:
            for filename in filenames:  # one of them fails again, and is named
                report_difference_in_use(load, [filename], overrides, task, *args)
        settings = overrides or {} if task is None else task.cfg
        what = describe_difference(filenames[0], str(error), settings, overrides or {})
        raise UsageError(f"{filenames[0]} {what}") from None
    if task is not None:
        before = _settings(loaded[1].task, "task")
        now = _settings(getattr(task, "cfg", None) or getattr(task, "args", {}), "task")
        for name in FIRST_TOKENS & before.keys() & now.keys():
            if before[name] != now[name]:
                trained = f"was trained with {flag(name)} {before[name]}, not {now[name]}"
                logger.warning(f"{filenames[0]} {trained}: it reads other tokens than in training")
    return loaded


def describe_difference(filename: str, error: str, task: Any, model: Any) -> str:
    """Return how a checkpoint differs from a run, by PyTorch's error and known settings."""
    saved = read_checkpoint(filename)
    saved_task, task = _settings(saved_group(saved, "task"), "task"), _settings(task, "task")
    if task.get("task", saved_task["task"]) != saved_task["task"]:
        return f"was trained for --task {saved_task['task']}, not {task['task']}"
    sizes = VOCABULARY.search(error)
    if sizes:
        folder = utils.split_paths(task.get("data") or saved_task["data"])[0]
        differ = f"it was trained with {sizes[1]} words and they have {sizes[3]}"
        fix = DATA + or_like(saved_task["task"], shlex.quote(str(filename)))
        return f"does not fit the dictionaries in {folder}: {differ}; {fix}"
    before = saved_task | _settings(saved_group(saved, "model"), "arch")
    now = task | _settings(model, "arch")
    differing = [
        f"{flag(name)} {before[name]}, not {value}"
        for name, value in now.items()
        if is_structural(name, before.get("arch"))
        and name in before
        and str(before[name]) != str(value)
    ]
    if differing:
        return f"was trained with {'; '.join(differing[:4])}"
    weight = next(filter(None, WEIGHT.findall(error)[0]))
    return f"has other weights than the model, {weight} among them"


def _settings(config: Any, name: str) -> dict[str, Any]:
    """Return a group of settings as a dictionary, with its ``_name`` under ``name``."""
    settings = dict(config if isinstance(config, Mapping) else vars(config))
    if "_name" in settings:
        settings[name] = settings.pop("_name")
    return settings
