"""GPUs of this machine, and updates shared among workers independently of their number."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError

# fairseq's default limit of tokens in a sentence; it stops at one that is larger than a batch.
LONGEST_SENTENCE = 1024


def count_gpus() -> int:
    """Return the number of GPUs of this machine."""
    import torch  # here, because it takes seconds

    return int(torch.cuda.device_count())


def assign_gpus(jobs: int, gpus: int, available: int) -> list[Mapping[str, str]]:
    """Return environment variables that assign GPUs to concurrent runs, disjoint if possible.

    Args:
        jobs: concurrent runs.
        gpus: GPUs a run.
        available: GPUs of this machine.
    """
    if jobs == 1 or available <= 1 or gpus == 0:
        return [{}] * jobs
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = visible if len(visible) == available else list(map(str, range(available)))
    return [
        {"CUDA_VISIBLE_DEVICES": ",".join(names[(job * gpus + i) % available] for i in range(gpus))}
        for job in range(jobs)
    ]


class Share(NamedTuple):
    """A worker's share of an update: ``frequency`` batches of ``size`` tokens or sentences."""

    size: int
    frequency: int


def share(size: int, batches: int, workers: int) -> Share:
    """Share an update of ``batches`` times ``size`` tokens (or sentences) among ``workers``.

    Each worker takes the fewest batches of at most ``size``. They are smaller if ``batches`` is not
    divisible by the number of workers.

    Raises:
        UsageError: there are more workers than tokens.
    """
    frequency = -(-batches // workers)
    shared = size * batches // (workers * frequency)
    if shared == 0:
        raise UsageError(f"{workers} workers cannot share an update of {batches} x {size}")
    return Share(shared, frequency)


def describe_share(size: int, batches: int, workers: int, unit: str) -> list[str]:
    """Return a line about the result of :func:`share`, and a warning if batches are too small."""
    shared, frequency = share(size, batches, workers)
    requested, total = size * batches, shared * frequency * workers
    uneven = "" if total == requested else f", not {requested}, which cannot be shared evenly"
    lines = [
        f"an update is {workers} worker(s) x {frequency} batch(es) (--update-freq) x {shared} "
        f"{unit} = {total} {unit}{uneven}"
    ]
    if unit == "tokens" and shared < min(size, LONGEST_SENTENCE):
        lines.append(
            f"warning: a sentence of more than {shared} tokens will stop training; "
            "use fewer workers"
        )
    return lines
