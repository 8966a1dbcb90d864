"""Checkpoints on PyTorch 2.6 and later, which fairseq reads without running what they carry.

PyTorch 2.6 made ``torch.load`` refuse everything but tensors and plain containers, because a
pickle can run code. fairseq's checkpoints hold settings and metrics besides, so fairseq (0.12.2 and
fairseq-fixed 0.12.3.1) can read none of them.
:mod:`fairseq_posattn.compat.checkpoints` reads them.
"""

import collections

import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.utils import overwrite_args_by_name
from fairseq.file_io import PathManager
from omegaconf import OmegaConf

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.checkpoints import options, settings
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.compat.patching import instead, when_applied

# Before 2.10 a file can write beyond the memory of PyTorch's tensors (CVE-2026-24747).
MINIMUM_TORCH = (2, 10)


@when_applied
def require_safe_torch():
    """Raise ImportError if PyTorch is older than :data:`MINIMUM_TORCH`."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < MINIMUM_TORCH:
        raise ImportError(
            f"fairseq_posattn needs PyTorch 2.10 or newer, not {torch.__version__}, which a "
            "checkpoint from elsewhere can harm (CVE-2026-24747)"
        )


@instead(checkpoint_utils, "load_checkpoint_to_cpu")
def load_checkpoint_to_cpu(path, arg_overrides=None, load_on_all_ranks=False):
    """As fairseq's, for files that :func:`read_checkpoint` reads and settings that are checked."""
    state = read_checkpoint(PathManager.get_local_path(path))
    overrides = arg_overrides or {}
    settings.check(path, state, overrides)
    try:
        options.complete(state)
        if state.get("args") is not None:
            vars(state["args"]).update(overrides)
        if state.get("cfg") is not None:
            state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
            overwrite_args_by_name(state["cfg"], overrides)
        return checkpoint_utils._upgrade_state_dict(state)
    except Exception as error:  # settings of another version's, too, or of nothing
        raise UsageError(
            f"{path} is not a checkpoint of fairseq's ({in_one_line(error)})"
        ) from error


@instead(checkpoint_utils, "load_ema_from_checkpoint")
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
