"""Tables of what fairseq's commands refuse: missing companions, conflicts, packages and devices.

fairseq finds most of it late: in a traceback, after an epoch, or not at all.
"""

import ast
import json
import os
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

import numpy
import torch
from fairseq import utils

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags import flag
from fairseq_posattn.compat.flags.data_folder import check_data
from fairseq_posattn.compat.flags.metrics import check_metric
from fairseq_posattn.compat.flags.names import check_names
from fairseq_posattn.compat.flags.ranges import check_ranges


class _Settings(dict):
    """Settings as attributes, None if they are missing."""

    def __getattr__(self, name):
        return self.get(name)


Rules = tuple[tuple[Callable[[_Settings], object], str], ...]

# Settings that fairseq reads as Python or JSON.
LITERALS = {
    "model_overrides": (ast.literal_eval, "Python dictionary"),
    "optimizer_overrides": (ast.literal_eval, "Python dictionary"),
    "eval_bleu_args": (json.loads, "JSON object"),
    "eval_bleu_detok_args": (json.loads, "JSON object"),
}
# Settings that need a package: alternative packages, their title, and how to install it.
TRACKING = "pip install 'fairseq_posattn[tracking]'"
PACKAGES = {
    "tensorboard_logdir": (("tensorboard", "tensorboardX"), "TensorBoard", TRACKING),
    "wandb_project": (("wandb",), "Weights & Biases", TRACKING),
    "write_checkpoints_asynchronously": (("iopath",), "iopath", "pip install iopath"),
}
NEEDS_GPU = (
    ": there is no GPU to train on in it; leave it out (in YAML: common.fp16=false or "
    "common.amp=false), or give --bf16 instead"
)


def _has_gpu(s):
    return torch.cuda.is_available() and not s.cpu


def _is_distributed(s):
    return (s.distributed_world_size or 1) > 1


def _spawns_without_gpu(s):
    spawns = s.distributed_init_method and not s.distributed_no_spawn
    is_spawned = torch.distributed.is_initialized()  # in a process that was started
    return _is_distributed(s) and spawns and not is_spawned and torch.cuda.device_count() == 0


def _does_not_divide(heads, width):
    return isinstance(heads, int) and isinstance(width, int) and width % heads


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
    (
        lambda s: (
            s.decoder_attention_heads
            and _does_not_divide(s.encoder_attention_heads, s.encoder_embed_dim)
        ),
        "--encoder-attention-heads {encoder_attention_heads}: it must divide --encoder-embed-dim "
        "{encoder_embed_dim}",
    ),
    (
        lambda s: _does_not_divide(s.decoder_attention_heads, s.decoder_embed_dim),
        "--decoder-attention-heads {decoder_attention_heads}: it must divide --decoder-embed-dim "
        "{decoder_embed_dim}",
    ),
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
    (lambda s: s.tpu and utils.xm is None, "--tpu: it needs torch_xla; install it"),
    (
        _spawns_without_gpu,
        "--distributed-world-size {distributed_world_size}: a process is started for each GPU, and "
        "there is none; without GPUs start each process by itself, with --distributed-no-spawn "
        "--distributed-backend gloo --ddp-backend legacy_ddp and its --distributed-rank",
    ),
    (
        lambda s: (
            _is_distributed(s)
            and s.distributed_no_spawn
            and not _has_gpu(s)
            and s.ddp_backend in ("c10d", "pytorch_ddp")
        ),
        "--ddp-backend {ddp_backend}: it is for GPUs; without them give --ddp-backend legacy_ddp",
    ),
    (
        lambda s: (
            None not in (s.distributed_world_size, s.distributed_rank)
            and s.distributed_rank >= s.distributed_world_size
        ),
        "--distributed-rank {distributed_rank}: it must be less than --distributed-world-size "
        "{distributed_world_size}",
    ),
    (lambda s: _is_no_folder(s.save_dir), "--save-dir {save_dir!r}: it must be a folder"),
)
VALIDATION: Rules = (
    (
        lambda s: str(s.attention_impl) == "sdpa" and "decoder_sublayers" in s,
        "--attention-impl sdpa: it returns no attention weights, and validation asks a decoder for "
        "them: give auto, which uses sdpa where possible, or --disable-validation",
    ),
    (
        # of several names fairseq would join those of the first
        lambda s: s.combine_valid_subsets and s.valid_subset != "valid",
        "--combine-val joins valid, valid1, valid2 and so on: --valid-subset {valid_subset} must "
        "be valid, or leave out --combine-val",
    ),
)
GENERATION: Rules = (
    (lambda s: not s.path, "--path is missing: name the checkpoint"),
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
        lambda s: s.retain_iter_history and s.task != "translation_lev",
        "--retain-iter-history: it needs a model of --task translation_lev; leave it out",
    ),
    (
        lambda s: s.print_alignment and s.task == "translation_lev",
        "--print-alignment: models of --task translation_lev have none; leave it out",
    ),
    (
        lambda s: s.replace_unk is not None and s.print_alignment != "hard",
        "--replace-unk: it needs --print-alignment hard, to know the source of an unknown word",
    ),
)


def _joins_subwords(name):
    return (
        lambda s: s.replace_unk is not None and getattr(s, name) is not None,
        f"--replace-unk: {flag(name)} joins the subwords of the source before one is looked up; "
        "leave it out",
    )


SEARCH_OF_FILES: Rules = (
    *SEARCH,
    (
        lambda s: s.constraints,
        "--constraints: fairseq-generate cannot read them; fairseq-interactive reads them from its "
        "input, after a TAB",
    ),
    *map(_joins_subwords, ("bpe", "tokenizer")),
)
SEARCH_OF_INPUT: Rules = (
    *SEARCH,
    (
        lambda s: s.print_alignment == "soft",
        "--print-alignment soft: fairseq-interactive prints hard ones only",
    ),
    _joins_subwords("post_process"),
)


def check(settings: Mapping):
    """Check the settings of fairseq-train, -generate, -interactive, -validate or -hydra-train.

    Args:
        settings: by the names of their flags, with underscores; ``task``, ``arch``, ``criterion``,
            ``optimizer`` and ``lr_scheduler`` are names.

    Raises:
        UsageError: for the first invalid setting; it has the setting, its value and what to do.
    """
    check_ranges(settings)
    check_literals(settings)
    if "max_update" in settings:
        check_training(settings)
    elif "path" in settings:
        check_generation(settings)


def check_rules(rules: Rules, settings: Mapping):
    """Raise a :class:`UsageError` for the first rule that fails."""
    settings = _Settings(settings)
    for fails, message in rules:
        if fails(settings):
            raise UsageError(message.format_map(settings))


def check_literals(settings: Mapping):
    """Check settings that fairseq reads as Python or JSON."""
    for name, (read, kind) in LITERALS.items():
        text = settings.get(name)
        if isinstance(text, str) and not isinstance(_read(text, read), dict):
            raise UsageError(f"{flag(name)} {text}: it must be a {kind}")
    betas = settings.get("adam_betas")
    if betas is not None:
        pair = _read(betas, ast.literal_eval) if isinstance(betas, str) else betas
        if not (
            isinstance(pair, Sequence)
            and len(pair) == 2
            and all(isinstance(beta, (int, float)) and 0 <= beta < 1 for beta in pair)
        ):
            raise UsageError(
                f"--adam-betas {betas}: it must be two numbers from 0 to below 1, as in "
                "'(0.9, 0.98)'"
            )


def _read(text, read):
    """Return the value of a text, or None."""
    try:
        return read(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def check_packages(settings: Mapping):
    """Check that packages are installed, without which fairseq ignores a flag or exits with 0."""
    for name, (packages, title, install) in PACKAGES.items():
        if settings.get(name) and not any(map(find_spec, packages)):
            raise UsageError(f"{flag(name)} needs {title}: {install}, or leave it out")


def check_training(settings: Mapping):
    """Check the settings of fairseq-train."""
    check_names(settings)
    check_rules(TRAINING, settings)
    check_packages(settings)
    validates = not settings.get("disable_validation")
    if validates:
        check_metric(settings)
        check_rules(VALIDATION, settings)
    check_data(settings, ("train_subset", *(["valid_subset"] if validates else [])))


def check_generation(settings: Mapping):
    """Check the settings of fairseq-generate, -interactive, -validate and -eval-lm."""
    check_rules(GENERATION, settings)
    interactive, subset = "buffer_size" in settings, "gen_subset"
    if "beam" in settings:
        check_rules(SEARCH_OF_INPUT if interactive else SEARCH_OF_FILES, settings)
    elif "context_window" not in settings:  # fairseq-validate
        check_rules(BATCH_SIZE, settings)
        subset = "valid_subset"
    check_data(settings, () if interactive else (subset,))
