"""The settings in a checkpoint, checked before anything is built of them.

fairseq builds the task and the model that a checkpoint's settings describe. So a file from
elsewhere decides which other files are opened on the machine of whoever tries it: embeddings,
vocabularies, other checkpoints, a script to run after saving. Here the settings are plain values
under plain names; they refer to nothing outside themselves (``${oc.env:HOME}``), and the files that
they name are left alone unless the user names them, too. Only ``data`` is used: the folder whose
dictionaries are read, as text.
"""

import argparse
import logging
import re

from fairseq_posattn.common.errors import UsageError

logger = logging.getLogger(__name__)

LARGEST = 100_000  # settings, with those that are parts of others
LONGEST = 1_000_000  # characters of one of them
DEEPEST = 20
NUMBERS = 1 << 63  # whole ones are smaller

# What the checkpoint's own weights take the place of.
INITIAL_WEIGHTS = {
    *("encoder_embed_path", "decoder_embed_path", "embed_path"),
    *("load_pretrained_encoder_from", "load_pretrained_decoder_from"),
    *("load_pretrained_aux_decoder_from", "pretrained_mlm_checkpoint"),
    *("pretrained_xlm_checkpoint", "ema_seed_model", "language_model"),
}
# What training leaves in every checkpoint and nothing needs afterwards. The kind of data, which may
# be one that other programs read, fairseq tells by the files.
LEFT_BEHIND = {"user_dir", "plasma_path", "dataset_impl"}
# What fairseq would read, write or run while it builds a task, a model, a criterion, or what
# splits words.
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
BUILT = {"model", "task", "criterion", "bpe", "tokenizer", "scoring"}  # what has defaults
NAMES = {"_name", "arch", "optimizer", "lr_scheduler", *BUILT}
NAME = re.compile(r"[\w.+@-]*")
REFERENCE = re.compile(r"\$\{\w+(\.\w+)*\}")  # to another setting


def check(path, state, overrides):
    """Check a checkpoint's settings, and take out of them what names other files.

    Args:
        path (str): the checkpoint, for messages.
        state (dict): as read; ``cfg`` and ``args`` in it are changed.
        overrides (dict): settings of the user's own, which need no check.

    Raises:
        UsageError: a setting has a name or a type that no flag has, or refers to something.
    """
    settings = _Settings(path, overrides)
    for name in ("cfg", "args"):
        if state.get(name) is not None:
            if not isinstance(state[name], (dict, argparse.Namespace)):
                settings.refuse(name, "are no settings")
            settings.check(state[name], ())


class _Settings:
    """Goes through the settings of one checkpoint."""

    def __init__(self, path, overrides):
        self.path = path
        self.overrides = overrides
        self.left = LARGEST

    def refuse(self, name, reason):
        raise UsageError(f"{self.path} is refused: its settings, {name}, {reason}")

    def check(self, value, place):
        """``place``: the names of the settings that this one is part of, and its own."""
        name = ".".join(map(str, place[-3:]))
        self.left -= 1
        if self.left == 0 or len(place) > DEEPEST:
            self.refuse(name, "are nested too deeply or often")
        if isinstance(value, dict):
            self.check_parts(value, place)
        elif isinstance(value, argparse.Namespace):
            self.check_parts(vars(value), place, flat=True)
        elif isinstance(value, (list, tuple)):
            for number, element in enumerate(value):
                self.check(element, (*place, number))
        elif isinstance(value, str):
            self.check_text(value, name)
        elif isinstance(value, int) and abs(value) >= NUMBERS:
            self.refuse(name, "are too large a number")
        elif value is not None and not isinstance(value, (bool, int, float)):
            self.refuse(name, f"are of type {type(value).__name__}")

    def check_text(self, text, name):
        if len(text) > LONGEST:
            self.refuse(name, f"are {len(text):,} characters long")
        if "${" in text:
            self.refuse(name, f"refer to something else: {text[:80]!r}")

    def check_parts(self, parts, place, flat=False):
        for name, value in list(parts.items()):
            if not isinstance(name, (str, int)) or name == "_target_" or "${" in str(name):
                self.refuse(".".join(map(str, place)), f"have a part named {str(name)[:80]!r}")
            if flat and isinstance(value, str) and REFERENCE.fullmatch(value):
                continue  # the default of a flag
            if name in NAMES and isinstance(value, str) and not NAME.fullmatch(value):
                self.refuse(name, f"are no name of one: {value[:80]!r}")
            if name == "data" and isinstance(value, str) and "://" in value:
                self.refuse(name, f"are no folder: {value[:80]!r}")
            self.check(value, (*place, name))
            if value and self.names_a_file(name, value):
                if flat or BUILT.isdisjoint(place):
                    parts[name] = None
                else:
                    del parts[name]

    def names_a_file(self, name, value):
        """Whether a setting names a file that is not to be opened."""
        if name in self.overrides:
            return False
        if name in INITIAL_WEIGHTS or name in LEFT_BEHIND:
            return True
        if name in FILES or (name in IN_DATA and not NAME.fullmatch(str(value))):
            logger.warning(
                f"{self.path}: the file of its setting {name} is left alone, {str(value)[:80]!r}; "
                f"to use one, name it yourself: --model-overrides \"{{'{name}': FILE}}\", or in "
                f"Python {name}=FILE"
            )
            return True
        return False
