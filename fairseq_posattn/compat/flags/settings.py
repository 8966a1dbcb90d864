"""A look at all settings of a command before it reads or writes anything."""

import ast
import json
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import numpy
import torch
from fairseq import utils

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.flags.data_folder import check_data
from fairseq_posattn.compat.flags.metrics import check_metric
from fairseq_posattn.compat.flags.names import check_names
from fairseq_posattn.compat.flags.ranges import check_ranges, flag

READERS = {
    "model_overrides": (ast.literal_eval, "Python dictionary"),
    "optimizer_overrides": (ast.literal_eval, "Python dictionary"),
    "eval_bleu_args": (json.loads, "JSON object"),
    "eval_bleu_detok_args": (json.loads, "JSON object"),
}


# What only models read that refine a translation, and what it is without the flag.
OF_REFINING = {
    "print_step": False,
    "retain_iter_history": False,
    "iter_decode_eos_penalty": 0.0,
    "iter_decode_max_iter": 10,
    "iter_decode_force_max_iter": False,
    "iter_decode_with_beam": 1,
    "iter_decode_with_external_reranker": False,
}

# What takes a package that need not be installed: its names, and what it is called.
TRACKERS = {
    "tensorboard_logdir": (("tensorboard", "tensorboardX"), "TensorBoard"),
    "wandb_project": (("wandb",), "Weights & Biases"),
}


def check(settings: Mapping):
    """Check the settings of fairseq-train, -generate, -interactive, -validate or -hydra-train.

    Args:
        settings: by the names of their flags, with underscores; ``task``, ``arch``, ``criterion``,
            ``optimizer`` and ``lr_scheduler`` are names.

    Raises:
        UsageError: for the first that cannot be served; it names the setting, its value and what
            would do.
    """
    check_ranges(settings)
    check_texts(settings)
    if "max_update" in settings:
        check_training(settings)
    elif "path" in settings:
        check_generation(settings)


def check_texts(settings: Mapping):
    """Settings that fairseq reads as Python or JSON."""
    for name, (read, kind) in READERS.items():
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
    """The value of a text, or None."""
    try:
        return read(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def check_training(settings: Mapping):
    """What fairseq-train cannot do."""
    check_names(settings)
    check_batch_size(settings)
    if settings.get("optimizer") is None:
        raise UsageError("--optimizer is missing: give one, such as adam")
    if settings.get("lr_scheduler") == "inverse_sqrt" and settings.get("warmup_updates") == 0:
        raise UsageError("--warmup-updates 0: --lr-scheduler inverse_sqrt needs 1 or more")
    cutoff, criterion = settings.get("adaptive_softmax_cutoff"), settings.get("criterion")
    if cutoff is not None and criterion != "adaptive_loss":
        raise UsageError(
            f"--adaptive-softmax-cutoff goes with --criterion adaptive_loss, not {criterion}"
        )
    if settings.get("num_batch_buckets") and not hasattr(numpy, "compat"):
        raise UsageError("--num-batch-buckets: fairseq has it with NumPy 1 alone; leave it out")
    check_heads(settings)
    check_windows(settings)
    check_devices(settings)
    check_trackers(settings)
    save_dir = settings.get("save_dir")
    if not save_dir or (os.path.exists(save_dir) and not os.path.isdir(save_dir)):
        raise UsageError(f"--save-dir {save_dir or repr('')}: it must be a folder")
    validates = not settings.get("disable_validation")
    if validates:
        check_metric(settings)
        check_weights(settings)
        check_subsets(settings)
    check_data(settings, ("train_subset", *(["valid_subset"] if validates else [])))


def check_subsets(settings: Mapping):
    """Subsets to validate on, of which fairseq loads the first name's alone where it joins them."""
    subsets = settings.get("valid_subset")
    if settings.get("combine_valid_subsets") and subsets != "valid":
        raise UsageError(
            f"--combine-val joins valid, valid1, valid2 and so on: --valid-subset {subsets} must "
            "be valid, or leave out --combine-val"
        )


def check_heads(settings: Mapping):
    """Heads that do not divide the width of a side, where a model has two."""
    for side in ("encoder", "decoder") if settings.get("decoder_attention_heads") else ():
        heads, width = (settings.get(f"{side}_{name}") for name in ("attention_heads", "embed_dim"))
        if isinstance(heads, int) and isinstance(width, int) and width % heads:
            raise UsageError(
                f"--{side}-attention-heads {heads}: it must divide --{side}-embed-dim {width}"
            )


def check_windows(settings: Mapping):
    """Windows of neighbours over n-grams, which stand behind the words and their padding."""
    ngrams = settings.get("word_ngrams") or 1
    if ngrams > 1 and str(settings.get("pooling")) == "window_max":
        raise UsageError(
            f"--word-ngrams {ngrams}: --pooling window_max takes neighbouring words, and n-grams "
            "are no word's neighbours: give --pooling mean, max or mean_max, or leave n-grams out"
        )


def check_weights(settings: Mapping):
    """An implementation without the weights that a decoder is asked for in validation."""
    if str(settings.get("attention_impl")) == "sdpa" and "decoder_sublayers" in settings:
        raise UsageError(
            "--attention-impl sdpa returns no weights of attention, and validation asks a decoder "
            "for them: give auto, which takes it where it can, or --disable-validation"
        )


def check_trackers(settings: Mapping):
    """What fairseq does without, with a warning in its log."""
    for name, (packages, title) in TRACKERS.items():
        if settings.get(name) and not any(map(find_spec, packages)):
            raise UsageError(
                f"{flag(name)} {settings[name]}: {title} is not installed: "
                "pip install 'fairseq_posattn[tracking]'"
            )


def check_batch_size(settings: Mapping):
    if settings.get("max_tokens") is None and settings.get("batch_size") is None:
        raise UsageError("the size of a batch is missing: give --max-tokens or --batch-size")


def check_devices(settings: Mapping):
    """GPUs that fairseq takes for granted."""
    has_gpu = torch.cuda.is_available() and not settings.get("cpu")
    lean = settings.get("memory_efficient_fp16") or settings.get("fp16_no_flatten_grads")
    for name in ("fp16", "amp"):
        if settings.get(name) and not (name == "fp16" and lean) and not has_gpu:
            raise UsageError(
                f"--{name}: there is no GPU to train on in it; leave it out (in YAML: "
                f"common.{name}=false), or give --bf16 instead"
            )
    if settings.get("profile") and not torch.cuda.is_available():
        raise UsageError("--profile: it needs a GPU, and there is none; leave it out")
    if settings.get("tpu") and utils.xm is None:
        raise UsageError("--tpu needs torch_xla, which is not installed")
    size, rank = settings.get("distributed_world_size"), settings.get("distributed_rank")
    spawns = settings.get("distributed_init_method") and not settings.get("distributed_no_spawn")
    spawned = torch.distributed.is_initialized()  # this is one of those started
    if (size or 1) > 1 and spawns and not spawned and torch.cuda.device_count() == 0:
        raise UsageError(
            f"--distributed-world-size {size}: a process is started for each GPU, and there is "
            "none; without GPUs start each process by itself, with --distributed-no-spawn "
            "--distributed-backend gloo --ddp-backend legacy_ddp and its --distributed-rank"
        )
    backend, alone = settings.get("ddp_backend"), settings.get("distributed_no_spawn")
    if (size or 1) > 1 and alone and not has_gpu and backend in ("c10d", "pytorch_ddp"):
        raise UsageError(
            f"--ddp-backend {backend} is for GPUs; without them give --ddp-backend legacy_ddp"
        )
    if size is not None and rank is not None and rank >= size:
        raise UsageError(
            f"--distributed-rank {rank}: --distributed-world-size {size} has ranks 0 to {size - 1}"
        )


def check_generation(settings: Mapping):
    """What fairseq-generate, -interactive, -validate and -eval-lm cannot do."""
    if not settings["path"]:
        raise UsageError("--path is missing: name the checkpoint")
    if "beam" in settings:
        check_search(settings, interactive="buffer_size" in settings)
    shards, shard = settings.get("num_shards", 1), settings.get("shard_id", 0)
    if shard >= shards:
        raise UsageError(f"--shard-id {shard}: --num-shards {shards} has 0 to {shards - 1}")
    subset = "gen_subset"
    if "beam" not in settings and "context_window" not in settings:  # fairseq-validate
        check_batch_size(settings)
        subset = "valid_subset"
    check_data(settings, () if "buffer_size" in settings else (subset,))


def check_search(settings: Mapping, interactive: bool):
    """What the search for translations cannot do."""
    beam, nbest = settings["beam"], settings["nbest"]
    if nbest > beam and not settings["score_reference"]:
        raise UsageError(f"--nbest {nbest}: a beam of {beam} has no more than {beam}; raise --beam")
    if settings["constraints"] and not interactive:
        raise UsageError(
            "--constraints: fairseq-generate has no place to read them from; fairseq-interactive "
            "takes them from its input, after a TAB"
        )
    for name, without in OF_REFINING.items():
        if settings[name] != without and settings["task"] != "translation_lev":
            raise UsageError(
                f"{flag(name)} is for models that refine a translation, of --task translation_lev"
            )
    alignment = settings["print_alignment"]
    if alignment and settings["task"] == "translation_lev":
        raise UsageError("--print-alignment: models that refine a translation have none to print")
    if alignment == "soft" and interactive:
        raise UsageError("--print-alignment soft: fairseq-interactive prints hard ones only")
    if settings["replace_unk"] is not None:
        check_replacing(settings, interactive)


def check_replacing(settings: Mapping, interactive: bool):
    """What an unknown word is of, among the pieces of the source."""
    if settings["print_alignment"] != "hard":
        raise UsageError(
            "--replace-unk needs --print-alignment hard, which tells what an unknown word is of"
        )
    for name in ("post_process",) if interactive else ("bpe", "tokenizer"):
        if settings[name] is not None:
            raise UsageError(
                f"--replace-unk: {flag(name)} joins the pieces of the source before one is looked "
                "up; leave it out"
            )
