"""Settings that fairseq's commands refuse: numbers out of range, conflicts, missing companions.

fairseq finds most of them late: in a traceback, after an epoch, or not at all.
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
RANGES: dict[str, tuple[Callable[[float], bool], str]] = {
    "from 0 to 1": (lambda n: 0 <= n <= 1, "*dropout* *layerdrop label_smoothing ema_decay"),
    "1 or more": (
        lambda n: n >= 1,
        "encoder_layers decoder_layers lstm_layers *attention_heads encoder_embed_dim "
        "decoder_embed_dim *ffn_embed_dim predicate_embed_dim decoder_output_dim max_positions "
        "max_source_positions max_target_positions pooling_queries pooling_window word_ngrams "
        "ngram_buckets rpr_max_distance max_tokens max_tokens_valid batch_size batch_size_valid "
        "update_freq required_batch_size_multiple required_seq_len_multiple log_interval "
        "save_interval validate_interval ema_update_freq beam nbest iter_decode_with_beam "
        "num_shards distributed_world_size checkpoint_shard_count title_length max_history "
        "negatives",
    ),
    "0 or more": (
        lambda n: n >= 0,
        "lr max_update max_epoch stop_time_hours warmup_updates clip_norm weight_decay adam_eps "
        "momentum curriculum seed num_workers save_interval_updates validate_interval_updates "
        "validate_after_updates head_dim head_highway_layers encoder_hidden_dim num_batch_buckets "
        "block_length dman_max_distance min_len max_len_a max_len_b prefix_size "
        "no_repeat_ngram_size buffer_size shard_id iter_decode_max_iter distributed_rank",
    ),
    "1 or more, or -1 for none": (lambda n: n == -1 or n >= 1, "sampling_topk diverse_beam_groups"),
    "0 or more, or -1 for none": (
        lambda n: n == -1 or n >= 0,
        "patience keep_interval_updates keep_last_epochs keep_best_checkpoints",
    ),
    "more than 0 and up to 1, or -1 for none": (lambda n: n == -1 or 0 < n <= 1, "sampling_topp"),
    "more than 0": (lambda n: n > 0, "temperature"),
}


class _Settings(dict):
    """Settings as attributes, None if they are missing."""

    def __getattr__(self, name):
        return self.get(name)


NO_BATCH_SIZE = "the size of a batch is missing: give --max-tokens or --batch-size"
NEEDS_GPU = (
    ": there is no GPU to train on in it; leave it out (in YAML: common.fp16=false or "
    "common.amp=false), or give --bf16 instead"
)


def training_mistakes(s: _Settings) -> Iterator[str]:
    if s.max_tokens is None and s.batch_size is None:
        yield NO_BATCH_SIZE
    if s.optimizer is None:
        yield "--optimizer is missing: give one, such as adam"
    if s.lr_scheduler == "inverse_sqrt" and s.warmup_updates == 0:
        yield "--warmup-updates 0: --lr-scheduler inverse_sqrt needs 1 or more"
    if s.adaptive_softmax_cutoff is not None and s.criterion != "adaptive_loss":
        yield f"--adaptive-softmax-cutoff: it needs --criterion adaptive_loss, not {s.criterion}"
    if s.num_batch_buckets and not hasattr(numpy, "compat"):
        yield "--num-batch-buckets: fairseq supports it with NumPy 1 only; leave it out"
    if isinstance(s.decoder_attention_heads, int):  # other encoders may have no heads
        for side in ("encoder", "decoder"):
            heads, width = s.get(f"{side}_attention_heads"), s.get(f"{side}_embed_dim")
            if isinstance(heads, int) and isinstance(width, int) and width % heads:
                yield f"--{side}-attention-heads {heads}: it must divide --{side}-embed-dim {width}"
    if (s.word_ngrams or 1) > 1 and str(s.pooling) == "window_max":
        yield (
            f"--word-ngrams {s.word_ngrams}: --pooling window_max takes neighboring words, which "
            "n-grams are not: give --pooling mean, max or mean_max, or leave n-grams out"
        )
    has_gpu = torch.cuda.is_available() and not s.cpu
    if s.fp16 and not (s.memory_efficient_fp16 or s.fp16_no_flatten_grads or has_gpu):
        yield "--fp16" + NEEDS_GPU
    if s.amp and not has_gpu:
        yield "--amp" + NEEDS_GPU
    if not s.save_dir or (os.path.exists(s.save_dir) and not os.path.isdir(s.save_dir)):
        yield f"--save-dir {s.save_dir!r}: it must be a folder"
    if str(s.attention_impl) == "sdpa" and "decoder_sublayers" in s and not s.disable_validation:
        yield (
            "--attention-impl sdpa: it returns no attention weights, and validation asks a decoder "
            "for them: give auto, which uses sdpa where possible, or --disable-validation"
        )


def generation_mistakes(s: _Settings) -> Iterator[str]:
    """Yield what is wrong with the settings of fairseq-generate, -interactive and -validate."""
    if not s.path:
        yield "--path is missing: name the checkpoint"
    try:
        is_dictionary = isinstance(ast.literal_eval(s.model_overrides or "{}"), dict)
    except (ValueError, SyntaxError):
        is_dictionary = False
    if not is_dictionary:
        yield f"--model-overrides {s.model_overrides}: it must be a Python dictionary"
    if "beam" not in s:
        if "context_window" not in s and s.max_tokens is None and s.batch_size is None:
            yield NO_BATCH_SIZE  # of fairseq-validate
        return
    if s.nbest > s.beam and not s.score_reference:
        yield f"--nbest {s.nbest}: a beam of {s.beam} has no more than {s.beam}; raise --beam"
    is_interactive = "buffer_size" in s
    if s.replace_unk is not None and s.print_alignment != "hard":
        yield (
            "--replace-unk: it needs --print-alignment hard, to know the source of an unknown word"
        )
    if s.replace_unk is not None and (s.post_process if is_interactive else s.bpe or s.tokenizer):
        yield (
            "--replace-unk: --bpe, --tokenizer and, in fairseq-interactive, --post-process join "
            "the subwords of the source before one is looked up; leave them out"
        )
    if s.constraints and not is_interactive:
        yield (
            "--constraints: fairseq-generate cannot read them; fairseq-interactive reads them from "
            "its input, after a TAB"
        )


def check(settings: Mapping):
    """Check a command's settings, by the names of their flags; UsageError for the first mistake."""
    check_ranges(settings)
    subsets = ()
    if "max_update" in settings:
        check_names(settings)
        for mistake in training_mistakes(_Settings(settings)):
            raise UsageError(mistake)
        subsets = ("train_subset",)
        if not settings.get("disable_validation"):
            check_metric(settings)
            subsets += ("valid_subset",)
    elif "path" in settings:
        for mistake in generation_mistakes(_Settings(settings)):
            raise UsageError(mistake)
        if "beam" not in settings and "context_window" not in settings:
            subsets = ("valid_subset",)
        elif "buffer_size" not in settings:
            subsets = ("gen_subset",)
    else:
        return
    check_data(settings, subsets)


def check_ranges(settings: Mapping):
    """Raise a :class:`UsageError` for the first number, alone or in a list, out of its range."""
    for name, value in settings.items():
        numbers = value if isinstance(value, (list, tuple)) else [value]
        for text, (holds, patterns) in RANGES.items():
            if any(fnmatchcase(name, pattern) for pattern in patterns.split()):
                for number in numbers:
                    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
                    if is_number and not holds(number):
                        raise UsageError(f"{flag(name)} {number}: it must be {text}")
