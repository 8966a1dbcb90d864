"""What fairseq needs on today's PyTorch, and nothing else.

PyTorch 2.6 made ``torch.load`` refuse everything but tensors and plain containers, because a
pickle can run code. fairseq's checkpoints hold a few types more, so fairseq can read none of them,
nor pass one on to the other processes of a run. :func:`apply` names exactly those types, and keeps
the refusal for all others.

It also mends what would make a result wrong without a word: a run that is killed while it copies a
checkpoint, a finished run that trains one update more when started again, and sentences that are
left out with the last batch. A file that cannot be read is reported in one line, and --bf16 works
without a TPU.
"""

import argparse
import collections
import contextlib
import functools
import logging
import os
import re
import typing
import warnings
import zipfile
from pickle import UnpicklingError

import numpy
import omegaconf
import torch

from fairseq_posattn.errors import UsageError


@contextlib.contextmanager
def _quietly():
    disabled = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


with _quietly():  # fairseq's import warns of its own use of Hydra and asks for tensorboardX
    from fairseq import checkpoint_utils, options, utils
    from fairseq.data import data_utils
    from fairseq.distributed import utils as distributed_utils
    from fairseq.file_io import PathManager

logger = logging.getLogger(__name__)

MINIMUM_TORCH = (2, 6)


def apply():
    """Prepare fairseq for the running PyTorch; calling it again changes nothing.

    Raises:
        ImportError: PyTorch is older than 2.6, whose ``torch.load`` runs code found in a file.
    """
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < MINIMUM_TORCH:
        raise ImportError(
            f"fairseq_posattn needs PyTorch 2.6 or newer, not {torch.__version__}, "
            "which would run code that it finds in a checkpoint"
        )
    torch.serialization.add_safe_globals(_types_in_checkpoints() + _types_between_processes())
    _wrap(checkpoint_utils, "load_checkpoint_to_cpu", _explain_unreadable)
    _wrap(checkpoint_utils, "load_ema_from_checkpoint", _explain_unreadable)
    _wrap(checkpoint_utils, "load_checkpoint", _leave_finished_alone)
    _wrap(PathManager, "copy", _copy_whole_or_not)
    _wrap(data_utils, "batch_by_size", _keep_last_batch)
    _wrap(options, "parse_args_and_arch", _allow_bf16_without_tpu)


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


def _wrap(owner, name, wrapper):
    """Replace ``owner.name`` by ``wrapper(original)`` once, whatever this module is imported as."""
    original = getattr(owner, name)
    if not hasattr(original, "wrapped_by_fairseq_posattn"):
        wrapped = functools.wraps(original)(wrapper(original))
        wrapped.wrapped_by_fairseq_posattn = True
        setattr(owner, name, staticmethod(wrapped) if isinstance(owner, type) else wrapped)


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


def _leave_finished_alone(load_checkpoint):
    """fairseq compares the updates with --max-update only after it has made another one."""

    def load_and_stop_if_finished(cfg, trainer, **kwargs):
        loaded = load_checkpoint(cfg, trainer, **kwargs)
        limits = trainer.cfg.optimization
        if limits.max_update and trainer.get_num_updates() >= limits.max_update:
            logger.info(
                f"nothing left to train: the checkpoint has {trainer.get_num_updates()} updates "
                f"and --max-update is {limits.max_update}"
            )
            limits.max_epoch = -1  # no epoch is left either
        return loaded

    return load_and_stop_if_finished


def _copy_whole_or_not(copy):
    """fairseq writes a checkpoint under another name first, but copies it straight to its place."""

    def copy_and_rename(src_path, dst_path, overwrite=False):
        if not PathManager.supports_rename(dst_path):
            return copy(src_path, dst_path, overwrite=overwrite)
        copied = copy(src_path, dst_path + ".tmp", overwrite=True)
        if copied:
            PathManager.rename(dst_path + ".tmp", dst_path)
        return copied

    return copy_and_rename


def _keep_last_batch(batch_by_size):
    """fairseq drops a last batch that is no multiple of --required-batch-size-multiple (8).

    So up to 7 sentences of a test set would be neither translated nor scored.
    """

    def batch_all(indices, *args, **kwargs):
        if not isinstance(indices, numpy.ndarray):
            indices = numpy.fromiter(indices, dtype=numpy.int64)
        if len(indices) == 0:
            return []
        batches = list(batch_by_size(indices, *args, **kwargs))
        left_out = indices[sum(map(len, batches)) :]
        return [*batches, left_out] if len(left_out) else batches

    return batch_all


def _allow_bf16_without_tpu(parse_args_and_arch):
    """fairseq takes --bf16 for --tpu; GPUs and CPUs have bfloat16 by now."""

    def parse(*args, **kwargs):
        parsed = parse_args_and_arch(*args, **kwargs)
        settings = parsed[0] if isinstance(parsed, tuple) else parsed
        if getattr(settings, "bf16", False) and utils.xm is None:  # no torch_xla: no TPU is meant
            settings.tpu = False
        return parsed

    return parse
