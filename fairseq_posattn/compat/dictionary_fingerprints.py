"""Which dictionaries a model was trained with: fairseq takes any of the right size.

A model that is given the words or the labels of other data, in another order, goes on as if nothing
were wrong. So a checkpoint keeps a fingerprint of each dictionary, and whoever loads it with others
is told so. Checkpoints from before are loaded as they were.
"""

import hashlib

from fairseq.data import Dictionary
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.patching import around

KEY = "dictionaries"
NAMES = {
    "source_dictionary": "source words",
    "target_dictionary": "target words",
    "label_dictionary": "labels",
}


def fingerprints(task) -> dict[str, str]:
    """SHA-256 of the symbols of each dictionary of a task, in their order."""
    found = {}
    for name in NAMES:
        try:
            dictionary = getattr(task, name, None)
        except (NotImplementedError, KeyError):  # tasks without text, or with several languages
            continue
        if isinstance(dictionary, Dictionary):
            text = "\n".join(dictionary.symbols)
            found[name] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return found


def check(task, known, names=tuple(NAMES)):
    """Compare the dictionaries of a task with those of a checkpoint.

    Args:
        known: the checkpoint's :func:`fingerprints`, or None.
        names: of the dictionaries to compare.

    Raises:
        UsageError: one is another.
    """
    here = fingerprints(task)
    for name in names:
        if known and name in known and name in here and known[name] != here[name]:
            settings = task.cfg or task.args  # of fairseq's older tasks
            raise UsageError(
                f"the dictionary of {NAMES[name]} in {settings.data} is not the one that the "
                "checkpoint was trained with, but of another size, order or content: name the "
                "folder of the data that it was trained on"
            )


@around(Trainer, "state_dict")
def _with_fingerprints(state_dict, self):
    """Where each of the two that load a checkpoint sees them: the task, and the trainer."""
    state, known = state_dict(self), {KEY: fingerprints(self.task)}
    return {
        **state,
        "task_state": {**state["task_state"], **known},
        "extra_state": {**state["extra_state"], **known},
    }


@around(FairseqTask, "load_state_dict")
def _check_in_use(load_state_dict, self, state_dict):
    rest = dict(state_dict)
    check(self, rest.pop(KEY, None))
    load_state_dict(self, rest)


@around(Trainer, "load_checkpoint")
def _check_in_training(load_checkpoint, self, *args, **kwargs):
    extra_state = load_checkpoint(self, *args, **kwargs)
    if extra_state:
        # New labels are a reason to finetune; new words leave embeddings without a meaning.
        finetuning = self.cfg.checkpoint.finetune_from_model is not None
        names = [name for name in NAMES if not (finetuning and name == "label_dictionary")]
        check(self.task, extra_state.get(KEY), names)
    return extra_state
