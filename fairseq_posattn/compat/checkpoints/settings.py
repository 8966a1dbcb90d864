"""The settings in a checkpoint, checked before anything is built of them.

fairseq opens the files that a checkpoint's settings name, even a script to run after saving. Here
settings are plain values with plain names, refer to nothing outside themselves
(``${oc.env:HOME}``), and the files that they name are ignored unless the user names them, too. Only
``data`` is used: the folder whose dictionaries are read, as text.
"""

import argparse
import contextlib
import json
import logging
import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, NoReturn

from fairseq_posattn.common.errors import UsageError

logger = logging.getLogger(__name__)

MAX_SETTINGS = 100_000  # with those that are parts of others
MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 20
MAX_INTEGER = 1 << 63
# Least and greatest values by patterns of names: beyond them, data takes any memory or a module
# fails when it is called. (The sizes of a model are bounded where it is built.)
LIMITS = {
    **dict.fromkeys(("*dropout*", "*layerdrop"), (0, 1)),
    **dict.fromkeys(("required_seq_len_multiple", "num_batch_buckets"), (0, 10_000)),
    **dict.fromkeys(("upsample_primary", "mask_multiple_length"), (-1, 10_000)),
    **dict.fromkeys(("batch_size", "batch_size_valid", "tokens_per_sample"), (-1, 1 << 20)),
    **dict.fromkeys(("title_length", "max_history", "negatives"), (-1, 10_000)),
    **dict.fromkeys(("dict_size", "dataset_size"), (-1, 1 << 20)),
    **dict.fromkeys(("beam", "iter_decode_with_beam"), (-1, 1_000)),  # of BLEU in validation
}

# Files that the checkpoint's weights replace, and settings that only training needs. The format of
# data, which may be that of another program, fairseq infers from the files.
UNUSED = {
    *("encoder_embed_path", "decoder_embed_path", "embed_path"),
    *("load_pretrained_encoder_from", "load_pretrained_decoder_from"),
    *("load_pretrained_aux_decoder_from", "pretrained_mlm_checkpoint"),
    *("pretrained_xlm_checkpoint", "ema_seed_model", "language_model"),
    *("user_dir", "use_plasma_view", "dataset_impl"),
}
# Files that fairseq would read, write or run while it builds a task, a model, a criterion or a
# tokenizer.
FILES = {
    *("w2v_path", "seq2seq_path", "pretrained_checkpoint", "lm_path", "vocoder", "vocoder_path"),
    *("bpe_codes", "bpe_merges", "bpe_vocab", "bpe_vocab_file", "gpt2_encoder_json"),
    *("gpt2_vocab_bpe", "sentencepiece_model", "sentencepiece_model_path"),
    *("speaker_emb_path", "quantization_config_path", "f0_stats", "label_dir", "replace_unk"),
    *("wer_kenlm_model", "wer_lexicon", "wer_args", "save_predictions", "post_save_script"),
    *("source_dict", "target_dict", "target_dictionary", "fixed_dictionary", "lang_dict"),
    *("extra_data", "baseline_model"),
    *("sampling_weights_from_file", "lang_to_offline_shard_ratio"),
}
IN_DATA = {"config_yaml", "multitask_config_yaml"}  # names of files in the folder of the data
BUILT = {"model", "task", "criterion", "bpe", "tokenizer", "scoring"}  # groups with defaults
NAMES = {"_name", "arch", "optimizer", "lr_scheduler", *BUILT}
NAME = re.compile(r"[\w.+@-]*")
REFERENCE = re.compile(r"\$\{\w+(\.\w+)*\}")  # to another setting


def as_number(value: Any) -> int | float | None:
    """Return a number, also for a string, which OmegaConf converts; or None."""
    try:
        return float(value) if isinstance(value, (str, int, float)) else None
    except (ValueError, OverflowError):
        return None


def saved_group(state: Mapping[str, Any], name: str) -> dict[Any, Any]:
    """Return a group of a checkpoint's settings; older checkpoints have one group for all."""
    cfg = state.get("cfg")
    group = cfg.get(name) if cfg and isinstance(cfg, dict) else state.get("args")
    group = vars(group) if isinstance(group, argparse.Namespace) else group
    return group if isinstance(group, dict) else {}


def check(path: str, state: dict[str, Any], overrides: Mapping[str, Any]) -> None:
    """Check the settings of a checkpoint that was read, and remove those that name other files."""
    settings = _Settings(path, overrides)
    for name in ("cfg", "args"):
        if state.get(name) is not None:
            if not isinstance(state[name], (dict, argparse.Namespace)):
                settings.refuse(name, "are not settings")
            settings.check(state[name], ())


class _Settings:
    """A traversal of the settings of one checkpoint."""

    def __init__(self, path: str, overrides: Mapping[str, Any]) -> None:
        self.path, self.overrides, self.left = path, overrides, MAX_SETTINGS

    def refuse(self, name: str, reason: str) -> NoReturn:
        reason = f"its settings, {name}, {reason}"
        raise UsageError(f"{self.path} is refused: {reason}; use another checkpoint")

    def check(self, value: Any, names: tuple[Any, ...]) -> None:
        """Check a value; ``names`` has the groups around it, and its name."""
        name = ".".join(map(str, names[-3:]))
        self.left -= 1
        if self.left == 0 or len(names) > MAX_DEPTH:
            self.refuse(name, "are nested too deeply or often")
        if isinstance(value, dict):
            self.check_group(value, names)
        elif isinstance(value, argparse.Namespace):
            self.check_group(vars(value), names, flat=True)
        elif isinstance(value, (list, tuple)):
            for number, element in enumerate(value):
                self.check(element, (*names, number))
        elif isinstance(value, str) and len(value) > MAX_CHARACTERS:
            self.refuse(name, f"are {len(value):,} characters long")
        elif isinstance(value, str) and "${" in value:
            self.refuse(name, f"refer to something else: {value[:80]!r}")
        elif isinstance(value, int) and abs(value) >= MAX_INTEGER:
            self.refuse(name, "are too large a number")
        elif value is not None and not isinstance(value, (str, bool, int, float)):
            self.refuse(name, f"are of type {type(value).__name__}")

    def check_limits(self, name: str, value: Any) -> None:
        if name.endswith("_args") and isinstance(value, str):  # JSON, of --eval-bleu-args
            with contextlib.suppress(ValueError, RecursionError):  # else an error where it is used
                parsed = json.loads(value)
                for inner in parsed if isinstance(parsed, dict) else ():
                    self.check_limits(inner, parsed[inner])
        number = as_number(value)
        for pattern, (least, most) in LIMITS.items():
            if fnmatchcase(name, pattern) and number is not None and not least <= number <= most:
                self.refuse(name, f"are {str(value)[:80]}, not from {least} to {most}")

    def check_group(
        self, group: dict[Any, Any], names: tuple[Any, ...], flat: bool = False
    ) -> None:
        for name, value in list(group.items()):
            if not isinstance(name, (str, int)) or name == "_target_" or "${" in str(name):
                self.refuse(".".join(map(str, names)), f"have a part named {str(name)[:80]!r}")
            if flat and isinstance(value, str) and REFERENCE.fullmatch(value):
                continue  # the default of a flag
            if name in NAMES and isinstance(value, str) and not NAME.fullmatch(value):
                self.refuse(name, f"are not a name: {value[:80]!r}")
            if name == "data" and isinstance(value, str) and "://" in value:
                self.refuse(name, f"are not a folder: {value[:80]!r}")
            self.check(value, (*names, name))
            self.check_limits(str(name), value)
            if not value or name in self.overrides:
                continue
            if name in FILES or (name in IN_DATA and not NAME.fullmatch(str(value))):
                logger.warning(
                    f"{self.path}: the file of its setting {name} is ignored, {str(value)[:80]!r}; "
                    f"to use one, name it yourself: --model-overrides \"{{'{name}': FILE}}\", or "
                    f"in Python {name}=FILE"
                )
            elif name not in UNUSED:
                continue
            if flat or BUILT.isdisjoint(names):
                group[name] = None
            else:
                del group[name]
