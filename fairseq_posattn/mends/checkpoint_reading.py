"""Checkpoints on PyTorch 2.6 and later, read without running code that they may carry.

PyTorch 2.6 made ``torch.load`` refuse everything but tensors and plain containers, because a
pickle can run code. fairseq's checkpoints hold a few types more, so fairseq can read none of them,
nor pass one on to the other processes of a run. :func:`apply` names exactly those types, and keeps
the refusal for all others. A file that cannot be read is reported in one line.
"""

import argparse
import collections
import os
import re
import typing
import zipfile
from pickle import UnpicklingError

import numpy
import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.distributed import utils as distributed_utils

from fairseq_posattn.errors import UsageError
from fairseq_posattn.mends.patching import patch

MINIMUM_TORCH = (2, 6)


def apply():
    """Let fairseq read its checkpoints.

    Raises:
        ImportError: PyTorch is older than 2.6, whose ``torch.load`` runs code found in a file.
    """
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < MINIMUM_TORCH:
        raise ImportError(
            f"fairseq_posattn needs PyTorch 2.6 or newer, not {torch.__version__}, "
            "which would run code that it finds in a checkpoint"
        )
    torch.serialization.add_safe_globals(_types_in_checkpoints() + _types_between_processes())
    patch(checkpoint_utils, "load_checkpoint_to_cpu", _explain_unreadable)
    patch(checkpoint_utils, "load_ema_from_checkpoint", _explain_unreadable)


def read_checkpoint(path):
    """Read a checkpoint onto the CPU without running any code that it may carry.

    Args:
        path (str): the file.

    Returns:
        dict: what fairseq saved.

    Raises:
        UsageError: the file is empty, truncated, damaged, no checkpoint of fairseq's, or holds
            types that fairseq does not write.
        OSError: the file cannot be opened.
    """
    with open(path, "rb") as file:
        try:
            state = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged pickle may raise anything
            raise UsageError(f"{path} {_what_is_wrong(path, error)}") from None
    if not isinstance(state, dict) or "model" not in state:
        raise UsageError(f"{path} is not a checkpoint of fairseq's: it holds no model")
    return state


def _what_is_wrong(path, error):
    refused = isinstance(error, UnpicklingError) and re.search(r"GLOBAL (\S+)", str(error))
    if refused:
        return (
            f"is refused: it holds {refused[1]}, which fairseq does not write and which may run "
            "code; use another checkpoint, or if you know that it is harmless, allow it with "
            "torch.serialization.add_safe_globals"
        )
    with open(path, "rb") as file:
        start = file.read(2)
    instead = "name another one, in training with --restore-file"
    if not start:
        return f"is empty: remove it and {instead}"
    if start == b"PK" and not zipfile.is_zipfile(path):  # the index stands at the end
        return f"is truncated after {os.path.getsize(path):,} bytes: remove it and {instead}"
    reason = f"{type(error).__name__}: {error}"
    reason = re.split(r"\n|\. ", reason)[0]  # PyTorch goes on to advise to let the code run
    return f"cannot be read ({reason}); if it is damaged or no checkpoint, {instead}"


def _types_in_checkpoints():
    """argparse's settings, and NumPy's numbers and arrays: metrics such as F1 and BLEU's counts."""
    number, array = numpy.float64(0), numpy.zeros(1)
    functions = [
        (thing.__reduce__()[0], f"numpy.{core}.multiarray.{name}")
        for thing, name in ((number, "scalar"), (array, "_reconstruct"))
        for core in ("core", "_core")  # as NumPy 1 and NumPy 2 write them
    ]
    dtypes = [type(numpy.dtype(name)) for name in ("float32", "float64", "int64")]
    return [argparse.Namespace, numpy.ndarray, numpy.dtype, *dtypes, *functions]


def _types_between_processes():
    """What the first process adds on resuming, before it sends the checkpoint to the others."""
    settings = [
        omegaconf.DictConfig,
        omegaconf.ListConfig,
        omegaconf.AnyNode,
        omegaconf.base.ContainerMetadata,
        omegaconf.base.Metadata,
        collections.defaultdict,
        dict,
        list,
        int,
        (typing.Any, "typing.Any"),
    ]
    return [distributed_utils._TensorPlaceholder, *settings]


def _explain_unreadable(load):
    """PyTorch's own messages are long, name no file and advise to let the code run."""

    def load_or_explain(path, *args, **kwargs):
        try:
            return load(path, *args, **kwargs)
        except Exception:
            if os.path.isfile(path):
                read_checkpoint(path)  # says so if the file itself is at fault
            raise

    return load_or_explain
