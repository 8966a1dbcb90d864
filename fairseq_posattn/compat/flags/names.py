"""Names of architectures, tasks and criterions, and which of them belong together.

argparse checks names of a command line; those of a YAML file fairseq reports late, by a KeyError.
"""

from collections.abc import Collection, Mapping
from difflib import get_close_matches
from itertools import product

from fairseq.models import (
    ARCH_MODEL_REGISTRY,
    MODEL_REGISTRY,
    FairseqLanguageModel,
    FairseqMultiModel,
)
from fairseq.models.nat import FairseqNATModel
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags import flag
from fairseq_posattn.compat.flags.data_folder import LAYOUTS
from fairseq_posattn.compat.flags.metrics import TASKS

# The only models that a task or a criterion supports, with an example.
MODELS_OF = {
    ("task", "language_modeling"): (FairseqLanguageModel, "transformer_lm"),
    ("task", "multilingual_translation"): (FairseqMultiModel, "multilingual_transformer"),
    ("criterion", "nat_loss"): (FairseqNATModel, "nonautoregressive_transformer"),
}
# The tasks of this plugin's models, with all their architectures, and of its criterions.
SENTENCES = ("sentence_prediction", "sentence_pair_prediction")
TASKS_OF = {
    "posattn_classifier": SENTENCES,
    "posattn_tagger": ("sequence_tagging",),
    "posattn_recommender": ("news_recommendation",),
    **dict.fromkeys(("sentence_classification", "relatedness", "rating_regression"), SENTENCES),
    "sequence_tagging": ("sequence_tagging",),
    "news_recommendation": ("news_recommendation",),
}
KNOWN_TASKS = {*TASKS, *(task for layout in LAYOUTS for task in layout.tasks)}
# Options without which a task of fairseq fails.
REQUIRED = {
    "online_backtranslation": "mono_langs",
    "translation_from_pretrained_bart": "langs",
    "translation_multi_simple_epoch": "lang_pairs",
}


def check_names(settings: Mapping):
    """Check the names of registered classes.

    Args:
        settings: as for :func:`fairseq_posattn.compat.flags.checks.check`.

    Raises:
        UsageError: a name is unknown or missing, or does not belong to the architecture or the
            criterion; or a task lacks a required option.
    """
    known: dict[str, Mapping[str, type]] = {
        "arch": {**MODEL_REGISTRY, **ARCH_MODEL_REGISTRY},
        "task": TASK_REGISTRY,
        **{
            kind: REGISTRIES[kind]["registry"]
            for kind in ("criterion", "optimizer", "lr_scheduler")
        },
    }
    for kind, names in known.items():
        name = settings.get(kind)
        if name is None and kind in ("arch", "task"):
            group = "model" if kind == "arch" else kind
            raise UsageError(f"{flag(kind)} is missing: in a YAML file it is {group}'s _name")
        if name is not None and name not in names:
            raise UsageError(f"{flag(kind)} {name}: unknown; {nearest(name, names)}")
        model, example = MODELS_OF.get((kind, name), (object, ""))
        if not issubclass(known["arch"][settings["arch"]], model):
            raise UsageError(
                f"{flag(kind)} {name} is for models such as --arch {example}, not for "
                f"{settings['arch']}"
            )
    task = settings["task"]
    for kind, (name, tasks) in product(("arch", "criterion"), TASKS_OF.items()):
        given, owner = (known[kind].get(one) for one in (settings.get(kind), name))
        if given and owner and issubclass(given, owner) and task in KNOWN_TASKS - {*tasks}:
            raise UsageError(
                f"{flag(kind)} {settings[kind]}: it does not support --task {task} (translation is "
                f"the default); give --task {' or '.join(tasks)}"
            )
    option = REQUIRED.get(task)
    if option and not settings.get(option):
        raise UsageError(f"--task {task}: it needs {flag(option)}; give it")


def nearest(name: str, known: Collection[str]) -> str:
    """Return the known names that are similar to a name, in words."""
    near = ", ".join(get_close_matches(name, known, cutoff=0.5))
    return f"of {len(known)} " + (f"the nearest are {near}" if near else "none is similar")
