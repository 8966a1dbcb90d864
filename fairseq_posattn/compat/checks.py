"""Tables of settings that fairseq's commands refuse: ranges, companions, conflicts, packages.

fairseq finds most of it late: in a traceback, after an epoch, or not at all.
"""

import ast
import os
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

import numpy
import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.names import check_data, check_metric, check_names, flag

# By the range in words: a test, which is false for NaN, and patterns of settings' names.
RANGES: dict[str, tuple[Callable[[float], bool], tuple[str, ...]]] = {
    "from 0 to 1": (
        lambda number: 0 <= number <= 1,
        ("*dropout*", "*layerdrop", "label_smoothing", "ema_decay"),
    ),
    "1 or more": (
        lambda number: number >= 1,
        (
            *("encoder_layers", "decoder_layers", "lstm_layers", "*attention_heads"),
            *("encoder_embed_dim", "decoder_embed_dim", "*ffn_embed_dim", "predicate_embed_dim"),
            *("max_positions", "max_source_positions", "max_target_positions", "pooling_queries"),
            *("pooling_window", "word_ngrams", "ngram_buckets"),
            *("max_tokens", "max_tokens_valid", "batch_size", "batch_size_valid"),
            *("required_batch_size_multiple", "required_seq_len_multiple", "update_freq"),
            *("log_interval", "save_interval", "validate_interval", "ema_update_freq"),
            *("beam", "nbest", "distributed_world_size", "checkpoint_shard_count", "num_shards"),
            *("iter_decode_with_beam", "decoder_output_dim"),
        ),
    ),
    "0 or more": (
        lambda number: number >= 0,
        (
            *("lr", "max_update", "max_epoch", "stop_time_hours", "warmup_updates", "clip_norm"),
            *("weight_decay", "adam_eps", "momentum", "curriculum", "seed", "num_workers"),
            *("save_interval_updates", "validate_interval_updates", "validate_after_updates"),
            *("head_dim", "head_highway_layers", "encoder_hidden_dim", "num_batch_buckets"),
            *("block_length", "min_len", "max_len_a", "max_len_b", "prefix_size"),
            *("no_repeat_ngram_size", "buffer_size", "shard_id", "iter_decode_max_iter"),
            "distributed_rank",
        ),
    ),
    "1 or more, or -1 for none": (
        lambda number: number == -1 or number >= 1,
        ("sampling_topk", "diverse_beam_groups"),
    ),
    "0 or more, or -1 for none": (
        lambda number: number == -1 or number >= 0,
        ("patience", "keep_interval_updates", "keep_last_epochs", "keep_best_checkpoints"),
    ),
    "more than 0 and up to 1, or -1 for none": (
        lambda number: number == -1 or 0 < number <= 1,
        ("sampling_topp",),
    ),
    "more than 0": (lambda number: number > 0, ("temperature",)),
}


class _Settings(dict):
    """Settings as attributes, None if they are missing."""

    def __getattr__(self, name):
        return self.get(name)


Rules = tuple[tuple[Callable[[_Settings], object], str], ...]
NEEDS_GPU = (
    ": there is no GPU to train on in it; leave it out (in YAML: common.fp16=false or "
    "common.amp=false), or give --bf16 instead"
)


def _has_gpu(s):
    return torch.cuda.is_available() and not s.cpu


def _heads_do_not_divide(side):
    def fails(s):
        heads, width = s.get(f"{side}_attention_heads"), s.get(f"{side}_embed_dim")
        is_seq2seq = isinstance(s.decoder_attention_heads, int)  # other encoders may have no heads
        return is_seq2seq and isinstance(heads, int) and isinstance(width, int) and width % heads

    heads, width = (f"{side}_{name}" for name in ("attention_heads", "embed_dim"))
    return fails, f"{flag(heads)} {{{heads}}}: it must divide {flag(width)} {{{width}}}"


def _is_no_dictionary(text):
    try:
        return not isinstance(ast.literal_eval(text), dict)
    except (ValueError, SyntaxError):
        return True


def _is_no_folder(path):
    return not path or (os.path.exists(path) and not os.path.isdir(path))


BATCH_SIZE: Rules = (
    (
        lambda s: s.max_tokens is None and s.batch_size is None,
        "the size of a batch is missing: give --max-tokens or --batch-size",
    ),
)
# Each rule is what fails, and the message, with the settings' values in braces.
TRAINING: Rules = (
    *BATCH_SIZE,
    (lambda s: s.optimizer is None, "--optimizer is missing: give one, such as adam"),
    (
        lambda s: s.lr_scheduler == "inverse_sqrt" and s.warmup_updates == 0,
        "--warmup-updates 0: --lr-scheduler inverse_sqrt needs 1 or more",
    ),
    (
        lambda s: s.adaptive_softmax_cutoff is not None and s.criterion != "adaptive_loss",
        "--adaptive-softmax-cutoff: it needs --criterion adaptive_loss, not {criterion}",
    ),
    (
        lambda s: s.num_batch_buckets and not hasattr(numpy, "compat"),
        "--num-batch-buckets: fairseq supports it with NumPy 1 only; leave it out",
    ),
    _heads_do_not_divide("encoder"),
    _heads_do_not_divide("decoder"),
    (
        lambda s: (s.word_ngrams or 1) > 1 and str(s.pooling) == "window_max",
        "--word-ngrams {word_ngrams}: --pooling window_max takes neighbouring words, which "
        "n-grams are not: give --pooling mean, max or mean_max, or leave n-grams out",
    ),
    (
        lambda s: (
            s.fp16 and not (s.memory_efficient_fp16 or s.fp16_no_flatten_grads or _has_gpu(s))
        ),
        "--fp16" + NEEDS_GPU,
    ),
    (lambda s: s.amp and not _has_gpu(s), "--amp" + NEEDS_GPU),
    (
        lambda s: s.profile and not torch.cuda.is_available(),
        "--profile: it needs a GPU, and there is none; leave it out",
    ),
    (lambda s: _is_no_folder(s.save_dir), "--save-dir {save_dir!r}: it must be a folder"),
)
VALIDATION: Rules = (
    (
        lambda s: str(s.attention_impl) == "sdpa" and "decoder_sublayers" in s,
        "--attention-impl sdpa: it returns no attention weights, and validation asks a decoder for "
        "them: give auto, which uses sdpa where possible, or --disable-validation",
    ),
)
GENERATION: Rules = (
    (lambda s: not s.path, "--path is missing: name the checkpoint"),
    (
        lambda s: _is_no_dictionary(s.model_overrides or "{}"),
        "--model-overrides {model_overrides}: it must be a Python dictionary",
    ),
    (
        lambda s: (s.shard_id or 0) >= (1 if s.num_shards is None else s.num_shards),
        "--shard-id {shard_id}: it must be less than --num-shards {num_shards}",
    ),
)
SEARCH: Rules = (
    (
        lambda s: s.nbest > s.beam and not s.score_reference,
        "--nbest {nbest}: a beam of {beam} has no more than {beam}; raise --beam",
    ),
    (
        lambda s: (s.diverse_beam_groups or 0) > 0 and s.beam % s.diverse_beam_groups,
        "--diverse-beam-groups {diverse_beam_groups}: it must divide --beam {beam}",
    ),
    (
        lambda s: s.replace_unk is not None and s.print_alignment != "hard",
        "--replace-unk: it needs --print-alignment hard, to know the source of an unknown word",
    ),
    (
        lambda s: (
            s.replace_unk is not None
            and (s.post_process if "buffer_size" in s else s.bpe or s.tokenizer)
        ),
        "--replace-unk: --bpe, --tokenizer and, in fairseq-interactive, --post-process join the "
        "subwords of the source before one is looked up; leave them out",
    ),
    (
        lambda s: s.constraints and "buffer_size" not in s,
        "--constraints: fairseq-generate cannot read them; fairseq-interactive reads them from its "
        "input, after a TAB",
    ),
    (
        lambda s: s.print_alignment == "soft" and "buffer_size" in s,
        "--print-alignment soft: fairseq-interactive prints hard ones only",
    ),
)


def check(settings: Mapping):
    """Check the settings of fairseq-train, -generate, -interactive, -validate or -hydra-train.

    ``settings`` go by the names of their flags, with underscores; ``task``, ``arch`` and others are
    names of classes. A :class:`UsageError` names the first invalid one.
    """
    check_ranges(settings)
    if "max_update" in settings:
        check_training(settings)
    elif "path" in settings:
        check_generation(settings)


def check_ranges(settings: Mapping):
    """Raise a :class:`UsageError` for the first number, alone or in a list, out of its range."""
    for name, value in settings.items():
        for text, (holds, patterns) in RANGES.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns):
                for number in _numbers(value):
                    if not holds(number):
                        raise UsageError(f"{flag(name)} {number}: it must be {text}")


def _numbers(value) -> Iterator[float]:
    for number in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            yield number


def check_rules(rules: Rules, settings: Mapping):
    """Raise a :class:`UsageError` for the first rule that fails."""
    settings = _Settings(settings)
    for fails, message in rules:
        if fails(settings):
            raise UsageError(message.format_map(settings))


def check_training(settings: Mapping):
    """Check the settings of fairseq-train."""
    check_names(settings)
    check_rules(TRAINING, settings)
    validates = not settings.get("disable_validation")
    if validates:
        check_metric(settings)
        check_rules(VALIDATION, settings)
    check_data(settings, ("train_subset", *(["valid_subset"] if validates else [])))


def check_generation(settings: Mapping):
    """Check the settings of fairseq-generate, -interactive, -validate and -eval-lm."""
    check_rules(GENERATION, settings)
    subsets = () if "buffer_size" in settings else ("gen_subset",)
    if "beam" in settings:
        check_rules(SEARCH, settings)
    elif "context_window" not in settings:  # fairseq-validate
        check_rules(BATCH_SIZE, settings)
        subsets = ("valid_subset",)
    check_data(settings, subsets)
