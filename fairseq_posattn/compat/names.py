"""Names that belong together: architectures, tasks, criterions, metrics, languages and splits.

fairseq reports a wrong one late: in a KeyError, by the name of another file, or after an epoch.
"""

import glob
import os
from collections.abc import Collection, Mapping
from difflib import get_close_matches

from fairseq import utils
from fairseq.data import data_utils
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_REGISTRY

from fairseq_posattn.common.errors import UsageError


def flag(name: str) -> str:
    """Return a setting's name as users type it."""
    return "--" + name.replace("_", "-")


def nearest(name: str, known: Collection[str]) -> str:
    """Return the known names that are similar to a name, in words."""
    near = ", ".join(get_close_matches(name, known, cutoff=0.5))
    return f"of {len(known)} " + (f"the nearest are {near}" if near else "none is similar")


SENTENCES = ("sentence_prediction", "sentence_pair_prediction")
TAGGING, NEWS = ("sequence_tagging",), ("news_recommendation",)
TRANSLATION = ("translation", "translation_lev", "translation_from_pretrained_bart")
# Tasks of this plugin's models, with all their architectures, and of its criterions.
TASKS_OF = {
    "arch": {
        "posattn_classifier": SENTENCES,
        **{"posattn_tagger": TAGGING, "posattn_recommender": NEWS},
    },
    "criterion": {
        **dict.fromkeys(("sentence_classification", "relatedness", "rating_regression"), SENTENCES),
        **{"sequence_tagging": TAGGING, "news_recommendation": NEWS},
    },
}
# Tasks with which these are refused; others may be a user's own.
KNOWN_TASKS = {*SENTENCES, *TAGGING, *NEWS, *TRANSLATION}
KNOWN_TASKS |= {"language_modeling", "translation_multi_simple_epoch"}
# Options without which a task of fairseq fails.
REQUIRED = {
    "online_backtranslation": "mono_langs",
    "translation_from_pretrained_bart": "langs",
    "translation_multi_simple_epoch": "lang_pairs",
}


def registries() -> dict[str, Mapping[str, type]]:
    """Return the registered classes by name, for each setting that names one."""
    kinds = ("criterion", "optimizer", "lr_scheduler")
    return {
        "arch": {**MODEL_REGISTRY, **ARCH_MODEL_REGISTRY},
        "task": TASK_REGISTRY,
        **{kind: REGISTRIES[kind]["registry"] for kind in kinds},
    }


def check_names(settings: Mapping):
    """Raise a :class:`UsageError` for unknown names, and a task that does not go with another."""
    known = registries()
    for kind, names in known.items():
        name = settings.get(kind)
        if name is None and kind in ("arch", "task"):
            group = "model" if kind == "arch" else kind
            raise UsageError(f"{flag(kind)} is missing: in a YAML file it is {group}'s _name")
        if name is not None and name not in names:
            raise UsageError(f"{flag(kind)} {name}: unknown; {nearest(name, names)}")
    task = settings["task"]
    for kind in ("arch", "criterion"):
        tasks = tasks_of(kind, settings.get(kind))
        if tasks and task in KNOWN_TASKS - {*tasks}:
            raise UsageError(f"{flag(kind)} {settings[kind]}: {needs_task(tasks, task)}")
    option = REQUIRED.get(task)
    if option and not settings.get(option):
        raise UsageError(f"--task {task}: it needs {flag(option)}; give it")


def tasks_of(kind: str, name: str | None) -> tuple[str, ...]:
    """Return the tasks of an ``arch`` or a ``criterion`` of this plugin; empty for others."""
    classes = registries()[kind]
    for owner, tasks in TASKS_OF[kind].items():
        if name in classes and issubclass(classes[name], classes[owner]):
            return tasks
    return ()


def needs_task(tasks: tuple[str, ...], given: str | None = None) -> str:
    """Return the end of a message about a wrong ``--task``, or about none."""
    wrong = f", not {given} (translation is the default)" if given else ""
    return f"it needs --task {' or '.join(tasks)}{wrong}; give it"


# Metrics in validation, and those among them to minimize. Other criterions may log anything.
METRICS = {
    "cross_entropy": ("loss", "nll_loss", "ppl", "bleu"),
    "label_smoothed_cross_entropy": ("loss", "nll_loss", "ppl", "accuracy", "bleu"),
    "label_smoothed_cross_entropy_fused": ("loss", "nll_loss", "ppl", "accuracy", "bleu"),
    "sentence_prediction": (
        *("loss", "nll_loss", "accuracy", "f1", "acc_and_f1", "mcc"),
        *("pearson", "spearman", "pearson_and_spearman"),
    ),
    "sentence_classification": ("loss", "accuracy", "macro_f1"),
    "relatedness": ("loss", "pearson", "spearman", "mse"),
    "rating_regression": ("loss", "rmse", "mae"),
    "sequence_tagging": ("loss", "f1", "precision", "recall", "complete", "accuracy"),
    "news_recommendation": ("loss", "auc", "mrr", "ndcg5", "ndcg10", "skipped"),
}
LOWER = {"loss", "nll_loss", "ppl", "mse", "rmse", "mae", "skipped"}


def check_metric(settings: Mapping):
    """Raise a :class:`UsageError` for a metric that is not logged, or in the wrong direction.

    fairseq reports an unknown one after an epoch, and of a wrong direction keeps the worst model.
    """
    wanted, criterion = settings.get("best_checkpoint_metric"), settings.get("criterion")
    known = METRICS.get(criterion)
    if wanted is None or known is None or settings.get("task") not in KNOWN_TASKS:
        return
    given = f"--best-checkpoint-metric {wanted}"
    if wanted not in known:
        raise UsageError(f"{given}: with --criterion {criterion} it is one of {', '.join(known)}")
    smoothed = criterion.startswith("label_smoothed")
    option = {"bleu": "eval_bleu", "accuracy": "report_accuracy" if smoothed else ""}.get(wanted)
    if option and not settings.get(option):
        raise UsageError(f"{given}: give {flag(option)}, too")
    if bool(settings.get("maximize_best_checkpoint_metric")) == (wanted in LOWER):
        fix = "lower, the better: leave out" if wanted in LOWER else "higher, the better: give"
        raise UsageError(f"{given}: the {fix} --maximize-best-checkpoint-metric")


# By task, the files of dictionaries and of a split.
FILES = {
    **dict.fromkeys(TRANSLATION, ("dict.*.txt", "{split}.{pair}.{language}*")),
    **dict.fromkeys(SENTENCES, ("input0/dict.txt", "input0/{split}.*")),
    "language_modeling": ("dict.txt", "{split}.*"),
}


def check_data(settings: Mapping, subsets: tuple[str, ...]):
    """Raise a :class:`UsageError` if the data lacks dictionaries, a language or a split."""
    data, task = settings.get("data"), settings.get("task")
    if not isinstance(data, str) or "://" in data or task not in FILES:
        return
    folders = utils.split_paths(data)
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(f"{folder or 'the data'}: there is no such folder; prepare the data")
    folder, dictionary = folders[0], FILES[task][0]
    if not _glob(folder, dictionary):
        others = (other for other in (*TRANSLATION, *SENTENCES) if _glob(folder, FILES[other][0]))
        other = next(others, None)
        hint = f"; it is data of --task {other}" if other else ": prepare the data first"
        raise UsageError(f"{folder} is not data of --task {task}: it has no {dictionary}{hint}")
    pair = _languages(folder, settings) if task in TRANSLATION else ("", "")
    for subset in subsets:
        languages = pair if subset != "gen_subset" else pair[:1]  # translating needs the source
        for split in filter(None, str(settings.get(subset) or "").split(",")):
            if not all(_splits(folder, task, split, pair, language) for language in languages):
                known = ", ".join(_splits(folder, task, "*", pair, languages[-1]))
                what = f"no such split{f' from {pair[0]} to {pair[1]}' if pair[0] else ''}"
                raise UsageError(f"{flag(subset)} {split}: {folder} has {what}, only {known}")


def _languages(folder, settings) -> tuple[str, str]:
    """Return source and target, which fairseq infers from file names unless both are given."""
    pair = (settings.get("source_lang"), settings.get("target_lang"))
    known = sorted(path.split(".")[-2] for path in _glob(folder, "dict.*.txt"))
    for name, language in zip(("--source-lang", "--target-lang"), pair, strict=True):
        if language not in (None, *known):
            lacks = f"no dict.{language}.txt, only dictionaries of {', '.join(known)}"
            raise UsageError(f"{name} {language}: {folder} has {lacks}")
    if None not in pair:
        return pair
    guessed = tuple(data_utils.infer_language_pair(folder))
    compared = zip(pair, guessed, strict=True)
    if any(inferred is None or given not in (None, inferred) for given, inferred in compared):
        both = f"give both --source-lang and --target-lang, of {', '.join(known)}"
        raise UsageError(f"{folder}: its files do not name the pair of languages; {both}")
    return guessed


def _splits(folder, task, split, pair, language):
    """Return the names of the splits that match, in either order of the languages."""
    name = split if split == "*" else glob.escape(split)
    names = set()
    for languages in (pair, pair[::-1]):
        pattern = FILES[task][1].format(split=name, pair="-".join(languages), language=language)
        names |= {os.path.basename(path).split(".")[0] for path in _glob(folder, pattern)}
    return sorted(names - {"dict", "preprocess"})  # preprocess.log


def _glob(folder, pattern):
    return glob.glob(os.path.join(glob.escape(folder), pattern))
