"""Resuming on several processes: the first reads the checkpoint and sends it to the others.

fairseq sends it by ``torch.save`` and ``torch.load``, which since PyTorch 2.6 refuses the settings
and metrics among it. They are allowed here, for what the processes of one run send each other;
files are another matter (:mod:`~.checkpoint_reading`).
"""

import argparse
import collections
import typing

import numpy
import omegaconf
import torch
from fairseq.distributed import utils as distributed_utils

from fairseq_posattn.compat.patching import around


@around(distributed_utils, "_broadcast_object_slow")
def _with_types(broadcast, *args, **kwargs):
    with torch.serialization.safe_globals(types()):
        return broadcast(*args, **kwargs)


def types():
    """For :func:`torch.serialization.add_safe_globals`: what is in a checkpoint that was read."""
    return [distributed_utils._TensorPlaceholder, *_settings(), *_numbers()]


def _settings():
    return [
        argparse.Namespace,
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


def _numbers():
    """NumPy's numbers and arrays: metrics such as F1 and BLEU's counts."""
    number, array = numpy.float64(0), numpy.zeros(1)
    functions = [number.__reduce__()[0], array.__reduce__()[0]]
    dtypes = [type(numpy.dtype(name)) for name in ("float32", "float64", "int32", "int64", "bool")]
    return [numpy.ndarray, numpy.dtype, *dtypes, *functions]
