"""Dictionaries of a checkpoint: fairseq loads a model with any of the right size.

A checkpoint stores a fingerprint of each. Checkpoints without fingerprints are loaded as before.
"""

import contextlib
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq.data import Dictionary
from fairseq.tasks.fairseq_task import FairseqTask

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.settings import saved_group
from fairseq_posattn.compat.patching import Function, around
from fairseq_posattn.text.manifest import or_like

logger = logging.getLogger(__name__)

KEY, NAMED = "dictionaries", "dictionaries of the named data"
NAMES = {"source_dictionary": "source words", "target_dictionary": "target words"}
NAMES["label_dictionary"] = "labels"


def fingerprints(task: Any) -> dict[str, str]:
    """Return the SHA-256 of the ordered symbols of each dictionary of a task."""
    result: dict[str, str] = {}
    if hasattr(task, "mono_langs"):  # building a model of online_backtranslation adds symbols
        return result
    for name in NAMES:
        try:
            dictionary = getattr(task, name, None)
        except (NotImplementedError, KeyError):  # tasks without text, or with several languages
            continue
        if isinstance(dictionary, Dictionary):
            text = "\n".join(dictionary.symbols)
            result[name] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return result


def note_named_data(state: dict[str, Any]) -> None:
    """Note the data that a checkpoint of fairseq, without fingerprints, names: its only record."""
    noted, data = state.get("task_state") or {}, saved_group(state, "task").get("data")
    if KEY not in noted and isinstance(data, str):
        state["task_state"] = {**noted, NAMED: data.split(os.pathsep)[0]}


def check(
    task: Any, expected: Mapping[str, str] | None, names: Sequence[str] = tuple(NAMES)
) -> None:
    """Raise a :class:`UsageError` if a dictionary is not that of the expected fingerprints."""
    actual = fingerprints(task)
    for name in names:
        if expected and name in expected and name in actual and expected[name] != actual[name]:
            cfg = task.cfg or task.args  # args of fairseq's older tasks
            differs = f"in {cfg.data} differs from the checkpoint's"
            fix = f"name the data of its training{or_like(getattr(cfg, '_name', None))}"
            raise UsageError(f"the dictionary of {NAMES[name]} {differs}; {fix}")


@around(FairseqTask, "load_state_dict")
def check_in_use(load_state_dict: Function, self: Any, state_dict: dict[str, Any]) -> None:
    """Check the dictionaries of a loaded model."""
    rest = dict(state_dict)
    check(self, rest.pop(KEY, None))
    _compare_with_named_data(self, rest.pop(NAMED, None))
    load_state_dict(self, rest)


def _compare_with_named_data(task: Any, folder: str | None) -> None:
    """Warn of dictionaries that differ from those in the folder, where they still are."""
    cfg: Any = task.cfg or getattr(task, "args", None)
    for name, side in zip(NAMES, ("source_lang", "target_lang"), strict=False):
        language, used = getattr(cfg, side, None), getattr(task, name, None)
        if folder and language and isinstance(used, Dictionary):
            file = os.path.join(folder, f"dict.{language}.txt")
            with contextlib.suppress(OSError, UsageError):
                if Dictionary.load(file).symbols != used.symbols:
                    differs = f"in {cfg.data} differs from {file}, which the checkpoint names"
                    logger.warning(f"the dictionary of {NAMES[name]} {differs}")


def check_in_training(trainer: Any, extra_state: dict[str, Any]) -> None:
    """Check the dictionaries of a resumed training, but not the labels of finetuning."""
    finetuning = trainer.cfg.checkpoint.finetune_from_model is not None
    names = [name for name in NAMES if not (finetuning and name == "label_dictionary")]
    check(trainer.task, extra_state.get(KEY), names)
