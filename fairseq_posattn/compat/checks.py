"""Settings that fairseq's commands refuse: numbers out of range, conflicts, unknown names."""

import ast
import itertools
import operator
import os
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import Field, fields, is_dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from fairseq import utils
from fairseq.data import data_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import (
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    MODEL_DATACLASS_REGISTRY,
    MODEL_REGISTRY,
)
from fairseq.models.nat import FairseqNATModel
from fairseq.registry import REGISTRIES
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.text.manifest import LOWER_IS_BETTER

# By the range in words: a test, which is false for NaN, and patterns of the names of fairseq's
# settings. The plugin's flags declare their own (common/flags.py).
RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "from 0 to 1": (lambda n: 0 <= n <= 1, "*dropout* *layerdrop label_smoothing ema_decay"),
    "1 or more": (
        lambda n: n >= 1,
        "*coder_layers *attention_heads *coder_embed_dim *ffn_embed_dim decoder_output_dim "
        "max_*positions max_tokens* batch_size* update_freq required_batch_size_multiple "
        "required_seq_len_multiple log_interval save_interval validate_interval ema_update_freq "
        "beam nbest iter_decode_with_beam num_shards distributed_world_size checkpoint_shard_count",
    ),
    "0 or more": (
        lambda n: n >= 0,
        "lr max_update max_epoch stop_time_hours warmup_updates clip_norm weight_decay adam_eps "
        "momentum curriculum seed num_workers save_interval_updates validate_interval_updates "
        "validate_after_updates num_batch_buckets min_len max_len_? prefix_size buffer_size "
        "no_repeat_ngram_size shard_id iter_decode_max_iter distributed_rank",
    ),
    "1 or more, or -1 for none": (
        lambda n: n == -1 or n >= 1,
        "sampling_topk diverse_beam_groups keep_interval_updates_pattern",
    ),
    "0 or more, or -1 for none": (
        lambda n: n == -1 or n >= 0,
        "patience keep_interval_updates keep_last_epochs keep_best_checkpoints",
    ),
    "more than 0 and up to 1, or -1 for none": (lambda n: n == -1 or 0 < n <= 1, "sampling_topp"),
    "more than 0": (lambda n: n > 0, "temperature"),
}


class Settings(dict[str, Any]):
    """Settings as attributes, None if they are missing."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)


NEEDS_GPU = (
    ": there is no GPU to train on in it; leave it out (in YAML: common.fp16=false or "
    "common.amp=false), or give --bf16 instead"
)


def training_mistakes(s: Settings) -> Iterator[str]:
    if s.optimizer is None:
        yield "--optimizer is missing: give one, such as adam"
    if s.lr_scheduler == "inverse_sqrt" and s.warmup_updates == 0:
        yield "--warmup-updates 0: --lr-scheduler inverse_sqrt needs 1 or more"
    # fairseq's LSTMs have a cutoff by default, as text, and use it with that criterion alone.
    if isinstance(s.adaptive_softmax_cutoff, (list, tuple)) and s.criterion != "adaptive_loss":
        yield f"--adaptive-softmax-cutoff: it needs --criterion adaptive_loss, not {s.criterion}"
    # Without it fairseq reads scores, not classes.
    needs = getattr(TASK_DATACLASS_REGISTRY.get(s.task), "regression_target", None)
    if s.classification_head_name and needs and "regression_target" not in s:
        reads = f"--task {s.task} reads the setting regression_target of a criterion"
        fix = "add 'regression_target: bool = False' to its dataclass"
        yield f"--criterion {s.criterion}: {reads}; {fix}"
    if s.eval_bleu:
        yield from join_mistakes("eval_bleu_remove_bpe", s.eval_bleu_remove_bpe)
    if "adam_betas" in s and not _are_betas(s.adam_betas):
        yield f"--adam-betas {s.adam_betas}: two numbers from 0 to below 1, such as '(0.9, 0.98)'"
    if isinstance(s.decoder_attention_heads, int):  # other encoders may have no heads
        for side in ("encoder", "decoder"):
            heads, width = s.get(f"{side}_attention_heads"), s.get(f"{side}_embed_dim")
            if isinstance(heads, int) and isinstance(width, int) and width % heads:
                yield f"--{side}-attention-heads {heads}: it must divide --{side}-embed-dim {width}"
    has_gpu = torch.cuda.is_available() and not s.cpu
    if s.fp16 and not (s.memory_efficient_fp16 or s.fp16_no_flatten_grads or has_gpu):
        yield "--fp16" + NEEDS_GPU
    if s.amp and not has_gpu:
        yield "--amp" + NEEDS_GPU
    if s.write_checkpoints_asynchronously and not find_spec("iopath"):
        yield "--write-checkpoints-asynchronously: it needs the package iopath; leave it out"
    keeps_float32 = (s.fp16 or s.bf16) and not (s.memory_efficient_fp16 or s.memory_efficient_bf16)
    if s.quant_noise_pq and not keeps_float32:
        why = "only --fp16 and --bf16 restore the weights that fairseq sets to 0"
        yield f"--quant-noise-pq {s.quant_noise_pq}: {why}; give one of these, or leave it out"
    processes = os.environ.get("WORLD_SIZE", "1")
    if s.distributed_world_size == 1 and processes != "1":
        alone = "each process of torchrun would train alone and write the same files"
        fix = "start examples/distributed/torchrun.sh instead, or unset the variable"
        yield f"WORLD_SIZE={processes}: {alone}; {fix}"
    if s.task in ("denoising", "multilingual_denoising") and s.permute:
        yield "--permute: fairseq never reads it; leave it out"
    if s.task == "denoising" and (s.permute_sentences or 0) > 0 and s.bpe != "gpt2":
        yield "--permute-sentences: sentences are found with --bpe gpt2 alone; leave it out"
    yield from lines_of("mistakes", s)


def _are_betas(value: Any) -> bool:
    try:
        numbers = ast.literal_eval(value) if isinstance(value, str) else tuple(value)
        return len(numbers) == 2 and all(0 <= number < 1 for number in numbers)
    except (ValueError, SyntaxError, TypeError):
        return False


def join_mistakes(name: str, symbol: str | None) -> Iterator[str]:
    """Yield what is wrong with an option that names how subwords are joined."""
    try:
        data_utils.post_process("", symbol)
    except NotImplementedError:
        known = "subword_nmt, sentencepiece, wordpiece or none"
        yield f"{flag(name)} {symbol}: unknown; give {known}"


def generation_mistakes(s: Settings) -> Iterator[str]:
    """Yield what is wrong with the settings of fairseq-generate, -interactive and -validate."""
    if not s.path:
        yield "--path is missing: name the checkpoint"
    try:
        overrides = ast.literal_eval(s.model_overrides or "{}")
    except (ValueError, SyntaxError):
        overrides = None
    if not isinstance(overrides, dict):
        yield f"--model-overrides {s.model_overrides}: it must be a Python dictionary"
    known = setting_names() if overrides else overrides
    for name in map(str, [key for key in overrides if key not in known]):
        yield f"--model-overrides {name!r}: no such setting; {nearest(name, known)}"
    is_interactive = "buffer_size" in s
    if "beam" not in s:
        return
    if s.nbest > s.beam and not s.score_reference:
        yield f"--nbest {s.nbest}: a beam of {s.beam} has no more than {s.beam}; raise --beam"
    if s.replace_unk is not None and s.print_alignment != "hard":
        yield "--replace-unk: it needs --print-alignment hard; give it"
    if s.replace_unk is not None and (s.post_process if is_interactive else s.bpe or s.tokenizer):
        options = "--bpe, --tokenizer and, in fairseq-interactive, --post-process"
        joined = "join the subwords of the source before one is looked up"
        yield f"--replace-unk: {options} {joined}; leave them out"
    yield from join_mistakes("post_process", s.post_process)


def check(settings: Mapping[str, Any]) -> None:
    """Check a command's settings, by the names of their flags; UsageError for the first mistake."""
    check_ranges(settings)
    if "max_update" in settings:
        check_names(settings)
        for mistake in training_mistakes(Settings(settings)):
            raise UsageError(mistake)
        check_folders(settings)
        if not settings.get("disable_validation"):
            check_metric(settings)
    elif "path" in settings:
        for mistake in generation_mistakes(Settings(settings)):
            raise UsageError(mistake)
        check_folders(settings)


def check_ranges(settings: Mapping[str, Any]) -> None:
    """Raise a :class:`UsageError` for the first number, alone or in a list, out of its range."""
    declared = declared_flags(settings)
    for name, value in settings.items():
        numbers = value if isinstance(value, (list, tuple)) else [value]
        numbers = [n for n in numbers if isinstance(n, (int, float)) and not isinstance(n, bool)]
        ranges = [
            (text, holds)
            for text, (holds, patterns) in RANGES.items()
            if any(fnmatchcase(name, pattern) for pattern in patterns.split())
        ]
        for bound, (text, compare) in BOUNDS.items() if name in declared else ():
            if (least := declared[name].metadata.get(bound)) is not None:
                ranges.append((text.format(least), partial(compare, least)))
        for (text, holds), number in itertools.product(ranges, numbers):
            if not holds(number):
                raise UsageError(f"{flag(name)} {number}: it must be {text}")


# Bounds that a flag declares: in words, and whether a number keeps to them.
BOUNDS = {"at_least": ("{} or more", operator.le), "more_than": ("more than {}", operator.lt)}


def config_of_model(arch: str | None) -> Any:
    """Return the dataclass of an architecture's model, None if it has none."""
    return MODEL_DATACLASS_REGISTRY.get(ARCH_MODEL_NAME_REGISTRY.get(arch, arch))


def configs_of(settings: Mapping[str, Any]) -> list[Any]:
    """Return the dataclasses of a command's model, task and criterion."""
    configs = (
        config_of_model(settings.get("arch")),
        TASK_DATACLASS_REGISTRY.get(settings.get("task")),
        REGISTRIES["criterion"]["dataclass_registry"].get(settings.get("criterion")),
    )
    return [config for config in configs if is_dataclass(config)]


def lines_of(function: str, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of each config's function of the settings: ``mistakes`` or ``warnings``."""
    for config in configs_of(settings):
        yield from getattr(config, function, lambda settings: ())(settings)


def declared_flags(settings: Mapping[str, Any]) -> dict[str, Field[Any]]:
    """Return the fields of a command's model, task and criterion, by name."""
    return {field.name: field for config in configs_of(settings) for field in fields(config)}


# --- Names of architectures, tasks, criterions and metrics, and the data --------------------------


def flag(name: str) -> str:
    """Return a setting's name as users type it."""
    return "--" + name.replace("_", "-")


def nearest(name: str, known: Collection[str]) -> str:
    """Return the known names that are similar to a name, in words."""
    near = ", ".join(get_close_matches(name, known, cutoff=0.5))
    return f"of {len(known)} " + (f"the nearest are {near}" if near else "none is similar")


# Tasks for whose data fairseq and the plugin have the only models; others may be a user's own.
KNOWN_TASKS = {"translation", "translation_lev", "translation_from_pretrained_bart"}
KNOWN_TASKS |= {"translation_multi_simple_epoch", "multilingual_translation"}
KNOWN_TASKS |= {"sentence_prediction", "language_modeling"}


def registries() -> dict[str, Mapping[Any, type]]:
    """Return the registered classes by name, for each setting that names a class."""
    kinds = ("criterion", "optimizer", "lr_scheduler")
    return {
        "arch": {**MODEL_REGISTRY, **ARCH_MODEL_REGISTRY},
        "task": TASK_REGISTRY,
        **{kind: REGISTRIES[kind]["registry"] for kind in kinds},
        "eval_bleu_detok": REGISTRIES["tokenizer"]["registry"],
    }


def setting_names() -> set[str]:
    """Return the names of all settings: of fairseq, tasks, models and other registered classes."""
    parser = ArgumentParser(conflict_handler="resolve")
    for registered in (*MODEL_REGISTRY.values(), *TASK_REGISTRY.values()):
        with suppress(Exception):  # some need packages that are not installed
            registered.add_args(parser)
    groups = vars(FairseqConfig())
    described = list(filter(is_dataclass, groups.values()))
    for kind in REGISTRIES.values():
        described += filter(None, kind["dataclass_registry"].values())
    names = {field.name for config in described for field in fields(config)}
    return {"arch", *groups, *names, *(action.dest for action in parser._actions)}


def check_names(settings: Mapping[str, Any]) -> None:
    """Raise a :class:`UsageError` for unknown names, and a task that does not go with another."""
    for kind, names in registries().items():
        name = settings.get(kind)
        if name is None and kind in ("arch", "task"):
            group = "model" if kind == "arch" else kind
            raise UsageError(f"{flag(kind)} is missing: in a YAML file it is {group}'s _name")
        if name is not None and name not in names:
            raise UsageError(f"{flag(kind)} {name}: unknown; {nearest(name, names)}")
    task, kind_of_task = settings["task"], TASK_REGISTRY.get(settings["task"])
    for kind in ("arch", "criterion"):
        tasks = tasks_of(kind, settings.get(kind))
        if tasks and task not in tasks and is_known_task(task):
            raise UsageError(f"{flag(kind)} {settings[kind]}: {needs_task(tasks, task)}")
        # fairseq's models and criterions are for data of other tasks: its models of sentences would
        # train without the predicate or the second sentence, and its losses leave out the tag with
        # the number of padding. The labels of pairs are as those of sentences.
        is_loss_of_pairs = kind == "criterion" and hasattr(kind_of_task, "data_of")
        if is_of_plugin(kind_of_task) and not is_loss_of_pairs:
            named = registries()[kind].get(settings.get(kind), type)
            if named.__module__.startswith("fairseq."):
                known = sorted(name for name in registries()[kind] if task in tasks_of(kind, name))
                wrong = f"{flag(kind)} {settings[kind]}: it is not for --task {task}"
                raise UsageError(f"{wrong}; give {' or '.join(known)}")


def tasks_of(kind: str, name: str | None) -> tuple[str, ...]:
    """Return the only tasks of an ``arch`` or a ``criterion``: its class's ``tasks``, if any."""
    named = registries()[kind].get(name, type)
    refining = ("translation_lev",) if issubclass(named, FairseqNATModel) else ()
    return getattr(named, "tasks", refining)


def is_known_task(name: str | None) -> bool:
    """Return whether a task is one of :data:`KNOWN_TASKS`, or of the plugin's."""
    return name in KNOWN_TASKS or is_of_plugin(TASK_REGISTRY.get(name))


def is_of_plugin(task: Any) -> bool:
    """Return whether a class is a task of the plugin, not a user's that is derived from one."""
    return "of_plugin" in getattr(task, "__dict__", ())


def needs_task(tasks: tuple[str, ...], task: str | None = None) -> str:
    """Return the end of a message about a wrong ``--task``, or about none."""
    wrong = f", not {task} (translation is the default)" if task else ""
    return f"it needs --task {' or '.join(tasks)}{wrong}; give it"


# Metrics of fairseq's criterions in validation, and the option that each needs. Others may log
# anything, unless their class has ``metrics``, or ``behaves_as``, a criterion of fairseq with the
# same metrics.
_LOSSES = {"loss": "", "nll_loss": "", "ppl": "", "bleu": "eval_bleu"}
METRICS: Mapping[str | None, Mapping[str, str]] = {
    "cross_entropy": _LOSSES,
    "label_smoothed_cross_entropy": _LOSSES | {"accuracy": "report_accuracy"},
    "sentence_prediction": {
        **{"loss": "", "nll_loss": "", "accuracy": "", "mcc": "report_mcc"},
        **dict.fromkeys(("f1", "acc_and_f1"), "report_acc_and_f1"),
        **dict.fromkeys(
            ("pearson", "spearman", "pearson_and_spearman"), "report_pearson_and_spearman"
        ),
    },
}


def behavior_of(criterion: str | None) -> str | None:
    """Return the criterion of fairseq with the same metrics and counts, else the same name."""
    return getattr(registries()["criterion"].get(criterion), "behaves_as", criterion)


def metrics_of(criterion: str | None) -> tuple[str, ...]:
    """Return the metrics of a criterion in validation; empty if unknown."""
    known = METRICS.get(behavior_of(criterion), {})
    return getattr(registries()["criterion"].get(criterion), "metrics", tuple(known))


def check_metric(settings: Mapping[str, Any]) -> None:
    """Raise UsageError for a metric that fairseq would miss, or maximize where it is minimized."""
    wanted, criterion = settings.get("best_checkpoint_metric"), settings.get("criterion")
    known = metrics_of(criterion)
    if wanted is None or not known or not is_known_task(settings.get("task")):
        return
    metric = f"--best-checkpoint-metric {wanted}"
    if wanted not in known:
        raise UsageError(f"{metric}: with --criterion {criterion} it is one of {', '.join(known)}")
    option = METRICS.get(behavior_of(criterion), {}).get(wanted)
    if option and not settings.get(option):
        raise UsageError(f"{metric}: give {flag(option)}, too")
    lower = wanted in LOWER_IS_BETTER
    if bool(settings.get("maximize_best_checkpoint_metric")) == lower:
        fix = "lower, the better: leave out" if lower else "higher, the better: give"
        raise UsageError(f"{metric}: the {fix} --maximize-best-checkpoint-metric")


def check_folders(settings: Mapping[str, Any]) -> None:
    """Raise UsageError for a missing folder of the data: fairseq reads the next in each epoch."""
    data = settings.get("data")
    if isinstance(data, str) and "://" not in data and is_known_task(settings.get("task")):
        for folder in utils.split_paths(data):
            if not os.path.isdir(folder):
                name = folder or "the data"
                raise UsageError(f"{name}: there is no such folder; prepare the data")
