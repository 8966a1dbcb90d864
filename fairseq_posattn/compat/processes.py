"""Several processes of one run, and threads that load data."""

import argparse
import atexit
import collections
import contextlib
import queue
import threading
import time
import typing
import weakref

import numpy
import omegaconf
import torch
from fairseq.data.iterators import BackgroundConsumer
from fairseq.distributed import utils as distributed_utils
from fairseq.tasks.fairseq_task import FairseqTask
from fairseq.trainer import Trainer

from fairseq_posattn.compat.patching import around

# --- Resuming: the first process reads the checkpoint and sends it to the others ------------------


@around(distributed_utils, "_broadcast_object_slow")
def allow_types(broadcast, *args, **kwargs):
    """Allow the types of a checkpoint between the processes of one run, but not in files.

    fairseq sends it by ``torch.save`` and ``torch.load``, which since PyTorch 2.6 refuses the
    settings and metrics in it.
    """
    with torch.serialization.safe_globals(broadcast_types()):
        return broadcast(*args, **kwargs)


def broadcast_types():
    """Return the types in a checkpoint that was read: settings, and NumPy's numbers in metrics."""
    number, array = numpy.float64(0), numpy.zeros(1)
    dtypes = [type(numpy.dtype(name)) for name in ("float32", "float64", "int32", "int64", "bool")]
    return [
        distributed_utils._TensorPlaceholder,
        *(argparse.Namespace, omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.AnyNode),
        *(omegaconf.base.ContainerMetadata, omegaconf.base.Metadata, collections.defaultdict),
        *(dict, list, int, (typing.Any, "typing.Any")),
        *(numpy.ndarray, numpy.dtype, *dtypes, number.__reduce__()[0], array.__reduce__()[0]),
    ]


# --- Dummy batches -------------------------------------------------------------------------------
# At the end of an epoch some processes may have a batch less, and compute a dummy batch instead.


@around(FairseqTask, "train_step")
def exclude_dummy_batch(train_step, self, *args, ignore_grad=False, **kwargs):
    """Exclude dummy batches from token counts and losses."""
    loss, sample_size, logged = train_step(self, *args, ignore_grad=ignore_grad, **kwargs)
    if ignore_grad:
        sample_size = 0 * sample_size
        logged = {name: 0 * value for name, value in logged.items()}
    return loss, sample_size, logged


@around(Trainer, "train_step")
def put_missing_batches_first(train_step, self, samples, *args, **kwargs):
    """Count the other batches of a process, too, with ``--update-freq`` above 1.

    If the last batch of a process is missing, fairseq leaves the whole process out of the number of
    tokens by which it divides the summed gradients.
    """
    samples = sorted(samples, key=lambda sample: sample is not None and len(sample) > 0)
    return train_step(self, samples, *args, **kwargs)


# --- Background threads --------------------------------------------------------------------------

MAX_WAIT = 10  # seconds that the program's end waits for a batch
_running = weakref.WeakSet()
_ending = threading.Event()


@around(BackgroundConsumer, "run")
def stop_at_exit(run, self):
    """Stop the thread that prepares batches before the program ends.

    In fairseq it is a daemon. If it is in PyTorch's C++ code at the end, the process is aborted:
    "terminate called", exit status 134.
    """
    self._source = _until_exit(self._source)
    _running.add(self)
    run(self)


def _until_exit(source):
    for item in source:
        if _ending.is_set():
            return
        yield item


@atexit.register
def _join_threads():
    _ending.set()
    deadline = time.monotonic() + MAX_WAIT
    for thread in list(_running):
        while thread.is_alive() and time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                thread._queue.get_nowait()  # it may be waiting for room
            thread.join(0.02)
