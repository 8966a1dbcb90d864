"""Training on from a checkpoint of an older version: its model stays what it was.

fairseq builds the model of the command line before it opens the checkpoint. Where a named
architecture has since gained an option, the model would change in the middle of its training. Where
an option is given that is another than the checkpoint's and leaves the weights' shapes as they are,
as an activation, it does, and fairseq says nothing.
"""

import logging
import os

from fairseq.models import MODEL_DATACLASS_REGISTRY

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.options import earlier_presets, missing, model_options
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.compat.command_loops import training_loop
from fairseq_posattn.compat.flags.ranges import flag
from fairseq_posattn.compat.patching import around
from fairseq_posattn.compat.restored_file import LAST

logger = logging.getLogger(__name__)

# What a model's result does not depend on, or only where it starts.
FREE = {"attention_impl", "checkpoint_activations", "offload_activations", "min_params_to_wrap"}
FREE |= {"encoder_embed_path", "decoder_embed_path", "start", "start_input_bias", "_name"}
FREE |= {"language_model", "language_model_config"}  # the second is the file's alone


@around(training_loop, "add_defaults")
def _with_those_of_the_checkpoint(add_defaults, cfg):
    add_defaults(cfg)
    path = file_to_train_on(cfg.checkpoint)
    if path is not None:
        take_over(cfg.model, path)


def file_to_train_on(cfg):
    """The file that fairseq will restore, as far as it is there.

    Args:
        cfg: fairseq's group of settings ``checkpoint``.

    Returns:
        str or None: where training is sharded, the first process's.
    """
    last = cfg.restore_file == LAST
    restored = os.path.join(cfg.save_dir, LAST) if last else cfg.restore_file or ""
    begun_with = (getattr(cfg, "continue_once", None), cfg.finetune_from_model) if last else ()
    suffix = cfg.checkpoint_suffix or ""
    names = (
        restored.replace(".pt", f"{suffix}.pt"),
        restored.replace(".pt", f"{suffix}-shard0.pt"),
        *begun_with,
    )
    return next((name for name in names if name and os.path.isfile(name)), None)


def take_over(model, path):
    """Keep what a checkpoint's model was, where an option has the named architecture's default.

    Options that the checkpoint lacks, and those that have the value of an earlier preset. It warns
    of those that it has otherwise.

    Args:
        model: fairseq's group of settings ``model``; changed in place.
        path (str): of the checkpoint. If it cannot be read, fairseq will say so.
    """
    name = getattr(model, "_name", None)
    known = getattr(MODEL_DATACLASS_REGISTRY.get(name), "__dataclass_fields__", {})
    if "encoder_sublayers" not in known:
        return  # none of the plugin's
    try:
        options = model_options(read_checkpoint(path, device="meta")) or {}
    except (UsageError, OSError):
        return
    trained = options if isinstance(options, dict) else vars(options)
    kept = {**missing(name, trained), **earlier_presets(name, trained)}
    for option, value in kept.items():
        if model[option] == known[option].default != value:
            model[option] = value
            why = "has an earlier default of" if option in trained else "knows no"
            logger.info(f"{path} {why} {option}, which so stays {value!r}")
    for option in known:
        if option in trained and option not in FREE and str(trained[option]) != str(model[option]):
            logger.warning(
                f"{path} was trained with {flag(option)} {trained[option]}, not {model[option]}, "
                "with which training goes on"
            )
