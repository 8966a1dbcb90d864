"""Checkpoints on PyTorch 2.6 and later, read without running code that they may carry.

PyTorch 2.6 made ``torch.load`` refuse everything but tensors and plain containers, because a
pickle can run code. fairseq's checkpoints hold settings and metrics besides, so fairseq can read
none of them. Here their form is checked before they are read (:mod:`~.checkpoint_files`), their
contents afterwards (:mod:`~.checkpoint_contents`), and their settings before anything is built of
them (:mod:`~.checkpoint_settings`). What cannot be read is reported in one line.
"""

import collections
import os
import re

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.file_io import PathManager
from omegaconf import OmegaConf

from fairseq_posattn.errors import UsageError
from fairseq_posattn.mends import checkpoint_options, checkpoint_settings
from fairseq_posattn.mends.checkpoint_contents import (
    STAND_INS,
    ContentError,
    allowed_by_user,
    plain,
    stand_ins,
)
from fairseq_posattn.mends.checkpoint_files import FormError, check
from fairseq_posattn.mends.patching import patch

# Before 2.10 a file can write beyond the memory of PyTorch's tensors (CVE-2026-24747).
MINIMUM_TORCH = (2, 10)
ANOTHER = "name another one, in training with --restore-file"


def apply():
    """Let fairseq read its checkpoints.

    Raises:
        ImportError: PyTorch is older than :data:`MINIMUM_TORCH`, which files can harm.
    """
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < MINIMUM_TORCH:
        raise ImportError(
            f"fairseq_posattn needs PyTorch 2.10 or newer, not {torch.__version__}, which a "
            "checkpoint from elsewhere can harm (CVE-2026-24747)"
        )
    patch(checkpoint_utils, "load_checkpoint_to_cpu", lambda original: load_checkpoint_to_cpu)
    patch(checkpoint_utils, "load_ema_from_checkpoint", lambda original: load_ema_from_checkpoint)


def read_checkpoint(path, device="cpu"):
    """Read a checkpoint onto the CPU without running any code that it may carry.

    Args:
        path (str): the file.
        device (str): "meta" for all but the tensors' numbers, which then take no memory.

    Returns:
        dict: what fairseq saved.

    Raises:
        UsageError: the file is empty, truncated, damaged, no checkpoint of fairseq's, or holds
            types that fairseq does not write.
        OSError: the file cannot be opened.
    """
    further = allowed_by_user()
    with open(path, "rb") as file:
        try:
            check(file, STAND_INS.keys() | further.keys())
            with stand_ins(further):
                state = torch.load(file, map_location=device, weights_only=True)
            state = plain(state, os.fstat(file.fileno()).st_size, further.values())
        except (FormError, ContentError) as error:
            raise UsageError(f"{path} {error}{_mend(str(error))}") from None
        except Exception as error:  # a damaged pickle may raise anything
            reason = re.split(r"\n|\. ", str(error))[0]  # advice to let the code run follows
            raise UsageError(
                f"{path} cannot be read ({type(error).__name__}: {reason}); if it is damaged or no "
                f"checkpoint, {ANOTHER}"
            ) from None
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not all(map(_is_weight, model.items())):
        raise UsageError(f"{path} is not a checkpoint of fairseq's: it holds no model")
    return state


def _is_weight(named):
    name, weight = named
    return isinstance(name, str) and isinstance(weight, torch.Tensor)


def _mend(error):
    if "it holds" in error:
        return (
            ", which fairseq does not write and which may run code; use another checkpoint, or if "
            "you know that it is harmless, allow it with torch.serialization.add_safe_globals"
        )
    if "refused" in error:
        return "; use another checkpoint"
    return f": remove it and {ANOTHER}"


def load_checkpoint_to_cpu(path, arg_overrides=None, load_on_all_ranks=False):
    """As fairseq's, for files that :func:`read_checkpoint` reads and settings that are checked."""
    state = read_checkpoint(PathManager.get_local_path(path))
    overrides = arg_overrides or {}
    checkpoint_settings.check(path, state, overrides)
    checkpoint_options.complete(state)
    if state.get("args") is not None:
        vars(state["args"]).update(overrides)
    try:
        if state.get("cfg") is not None:
            state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
            overwrite_args_by_name(state["cfg"], overrides)
        return checkpoint_utils._upgrade_state_dict(state)
    except Exception as error:  # settings of another version's, too, or of nothing
        raise UsageError(
            f"{path} is not a checkpoint of fairseq's ({in_one_line(error)})"
        ) from error


def in_one_line(error):
    """An error with its type, shortened."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def load_ema_from_checkpoint(path):
    """As fairseq's: the checkpoint with the averaged weights, in float32, as its model."""
    state = read_checkpoint(path)
    averaged = state.get("extra_state", {}).get("ema")
    if not averaged:
        raise UsageError(f"{path} holds no averaged weights: train with --store-ema")
    state["model"] = collections.OrderedDict(
        (name, weight.float() if weight.dtype is torch.half else weight.clone())
        for name, weight in averaged.items()
    )
    return state
