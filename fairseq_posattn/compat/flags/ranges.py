"""Ranges of numeric settings by name: fairseq accepts any number, and fails late or not at all."""

from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags import flag

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
            *("beam", "nbest", "distributed_world_size", "checkpoint_shard_count"),
            *("iter_decode_with_beam", "decoder_output_dim", "num_shards"),
        ),
    ),
    "0 or more": (
        lambda number: number >= 0,
        (
            *("lr", "max_update", "max_epoch", "stop_time_hours", "warmup_updates", "clip_norm"),
            *("weight_decay", "adam_eps", "momentum", "curriculum", "seed", "num_workers"),
            *("save_interval_updates", "validate_interval_updates", "validate_after_updates"),
            *("head_dim", "head_highway_layers", "encoder_hidden_dim", "num_batch_buckets"),
            *("block_length",),
            *("min_len", "max_len_a", "max_len_b", "prefix_size", "no_repeat_ngram_size"),
            *("buffer_size", "distributed_rank", "shard_id", "iter_decode_max_iter"),
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
