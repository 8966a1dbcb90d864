"""A checkpoint of another model, task or dictionary: what it is that differs.

fairseq (0.12.2 and fairseq-fixed 0.12.3.1) shows PyTorch's list of all weights that differ, under
three tracebacks, and in an ensemble it does not say in which file.
"""

import os
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase

from fairseq import checkpoint_utils, utils
from fairseq.trainer import Trainer

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.compat.flags.ranges import flag
from fairseq_posattn.compat.patching import around

WORDS = re.compile(
    r"size mismatch for \S*(?:embed_tokens|output_projection|embed_out)\S*: "
    r"copying a param with shape \S*\[(\d+), (\d+)\]\) from checkpoint, "
    r"the shape in current model is \S*\[(\d+), \2\]"
)
WEIGHT = re.compile(r"size mismatch for (\S+): .*|(?:Missing|Unexpected) key\(s\).*?\"(\S+)\"")

# Settings of a model that decide which weights it has.
STRUCTURE = (
    *("arch", "num_classes", "*sublayers", "*layers", "*_dim", "*attention_heads", "share_*"),
    *("*learned_pos", "*normalize_before", "layernorm_embedding"),
    *("encoder", "pooling*", "*fusion", "mpsan_*"),
)


@around(Trainer, "load_checkpoint")
def _say_what_differs(load_checkpoint, self, filename, *args, **kwargs):
    try:
        return load_checkpoint(self, filename, *args, **kwargs)
    except Exception as error:
        if not str(error).startswith("Cannot load model parameters from checkpoint"):
            raise
        if isinstance(error.__context__, UsageError):
            raise UsageError(f"{filename}: {error.__context__}") from None
        what = _difference(filename, str(error.__context__), self.task.cfg, self.cfg.model)
        inside = os.path.dirname(filename) == os.path.normpath(self.cfg.checkpoint.save_dir)
        elsewhere = ", or into another --save-dir" if inside else ""
        raise UsageError(f"{filename} {what}; train as it was trained{elsewhere}") from None


@around(checkpoint_utils, "load_model_ensemble_and_task")
def _say_which_file_differs(load, filenames, arg_overrides=None, task=None, *args, **kwargs):
    try:
        return load(filenames, arg_overrides, task, *args, **kwargs)
    except RuntimeError as error:
        if "Error(s) in loading state_dict" not in str(error):
            raise
        if len(filenames) > 1:
            for one in filenames:  # one of them fails again, and is named
                _say_which_file_differs(load, [one], arg_overrides, task, *args, **kwargs)
        settings = arg_overrides or {} if task is None else task.cfg
        what = _difference(filenames[0], str(error), settings, arg_overrides or {})
        raise UsageError(f"{filenames[0]} {what}") from None


def _difference(filename, error, task, model):
    """In what a checkpoint is not of a run.

    Args:
        error: PyTorch's list of the weights that differ.
        task, model: the run's settings, those that are known.
    """
    saved = read_checkpoint(filename)
    saved = saved.get("cfg") or {"task": saved.get("args"), "model": saved.get("args")}
    saved_task, task = _settings(saved["task"], "task"), _settings(task, "task")
    if task.get("task", saved_task["task"]) != saved_task["task"]:
        return f"was trained for --task {saved_task['task']}, not {task['task']}"
    words = WORDS.search(error)
    if words:
        folder = utils.split_paths(task.get("data") or saved_task["data"])[0]
        return (
            f"does not fit the dictionaries in {folder}: it was trained with {words[1]} words and "
            f"they have {words[3]}; name the data that it was trained on"
        )
    before = saved_task | _settings(saved["model"], "arch")
    now = task | _settings(model, "arch")
    differing = [
        f"{flag(name)} {before[name]}, not {value}"
        for name, value in now.items()
        if any(fnmatchcase(name, pattern) for pattern in STRUCTURE)
        and name in before
        and str(before[name]) != str(value)
    ]
    if differing:
        return f"was trained with {'; '.join(differing[:4])}"
    weight = WEIGHT.search(error)
    return f"has other weights than the model, {weight[1] or weight[2]} among them"


def _settings(config, name):
    """A group of settings as a dictionary; its ``_name`` is called ``name``."""
    settings = dict(config if isinstance(config, Mapping) else vars(config))
    if "_name" in settings:
        settings[name] = settings.pop("_name")
    return settings
