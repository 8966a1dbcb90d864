"""Dictionaries: readable ones, and those that a model was trained with.

fairseq loads a model with any dictionaries of the right size. With the words or labels of other
data, or in another order, its output is meaningless. So a checkpoint stores a fingerprint of each
dictionary. Checkpoints without fingerprints are loaded as before.
"""

import hashlib
import os

from fairseq.data import Dictionary
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.patching import around

MAX_BYTES = 1 << 30
KEY = "dictionaries"
NAMES = {
    "source_dictionary": "source words",
    "target_dictionary": "target words",
    "label_dictionary": "labels",
}


@around(Dictionary, "add_from_file")
def name_dictionary(add_from_file, self, file):
    """Name a dictionary that cannot be read, or has no words.

    fairseq does not name the file, and an empty dictionary fails in the model's embedding.
    """
    if not isinstance(file, str):
        return add_from_file(self, file)
    if os.path.isfile(file) and os.path.getsize(file) > MAX_BYTES:
        raise UsageError(f"{file} is not a dictionary: it has more than {MAX_BYTES:,} bytes")
    before = len(self)
    try:
        add_from_file(self, file)
    except OSError:
        raise
    except Exception as error:
        raise UsageError(f"{file} is not a dictionary ({in_one_line(error)})") from error
    if len(self) == before:
        raise UsageError(f"{file} is a dictionary without words: prepare the data again")


def fingerprints(task) -> dict[str, str]:
    """Return the SHA-256 of the ordered symbols of each dictionary of a task."""
    result = {}
    for name in NAMES:
        try:
            dictionary = getattr(task, name, None)
        except (NotImplementedError, KeyError):  # tasks without text, or with several languages
            continue
        if isinstance(dictionary, Dictionary):
            text = "\n".join(dictionary.symbols)
            result[name] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return result


def check(task, expected, names=tuple(NAMES)):
    """Compare the dictionaries of a task with those of a checkpoint.

    Args:
        expected: the checkpoint's :func:`fingerprints`, or None.
        names: the dictionaries to compare.

    Raises:
        UsageError: one differs.
    """
    actual = fingerprints(task)
    for name in names:
        if expected and name in expected and name in actual and expected[name] != actual[name]:
            settings = task.cfg or task.args  # of fairseq's older tasks
            raise UsageError(
                f"the dictionary of {NAMES[name]} in {settings.data} differs from the one that the "
                "checkpoint was trained with in size, order or content; name the folder of the "
                "data that it was trained on"
            )


@around(Trainer, "state_dict")
def save_fingerprints(state_dict, self):
    """Save them for both readers of a checkpoint, the task and the trainer."""
    state, entry = state_dict(self), {KEY: fingerprints(self.task)}
    return {
        **state,
        "task_state": {**state["task_state"], **entry},
        "extra_state": {**state["extra_state"], **entry},
    }


@around(FairseqTask, "load_state_dict")
def check_in_use(load_state_dict, self, state_dict):
    """Check the dictionaries of a loaded model."""
    rest = dict(state_dict)
    check(self, rest.pop(KEY, None))
    load_state_dict(self, rest)


@around(Trainer, "load_checkpoint")
def check_in_training(load_checkpoint, self, *args, **kwargs):
    """Check the dictionaries of a resumed training, but not the labels of finetuning."""
    extra_state = load_checkpoint(self, *args, **kwargs)
    if extra_state:
        finetuning = self.cfg.checkpoint.finetune_from_model is not None
        names = [name for name in NAMES if not (finetuning and name == "label_dictionary")]
        check(self.task, extra_state.get(KEY), names)
    return extra_state
