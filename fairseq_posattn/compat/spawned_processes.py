"""SIGTERM to a fairseq-train that has started a process for each GPU: it would leave them alone.

Whoever sent it then waits for the end of a process that has ended, while the others are saving.
"""

import multiprocessing
import os
import signal

import torch.multiprocessing
from fairseq.distributed import utils as distributed_utils

from fairseq_posattn.compat.patching import around


@around(torch.multiprocessing, "spawn")
def _pass_on(spawn, fn, *args, **kwargs):
    if fn is not distributed_utils.distributed_main:
        return spawn(fn, *args, **kwargs)
    received = []

    def pass_on(number, frame):
        received.append(number)
        for child in multiprocessing.active_children():
            os.kill(child.pid, number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        return spawn(fn, *args, **kwargs)
    except torch.multiprocessing.ProcessExitedException:
        if received:
            raise SystemExit(128 + received[0]) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
