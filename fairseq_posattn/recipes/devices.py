"""The GPUs of this machine, and which of them a run trains on."""

import os
from collections.abc import Mapping


def gpus_here() -> int:
    """How many this machine has."""
    import torch  # only here: it takes seconds

    return int(torch.cuda.device_count())


def devices(jobs: int, gpus: int, here: int) -> list[Mapping[str, str]]:
    """Variables that give each of several runs GPUs of its own, as far as there are enough.

    Args:
        jobs: runs at a time.
        gpus: for each of them.
        here: GPUs that there are.
    """
    if jobs == 1 or here <= 1 or gpus == 0:
        return [{}] * jobs
    named = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    names = named if len(named) == here else [str(number) for number in range(here)]
    return [
        {"CUDA_VISIBLE_DEVICES": ",".join(names[(job * gpus + i) % here] for i in range(gpus))}
        for job in range(jobs)
    ]
