"""What a measurement ran on, for the head of every report, waiting for the device, and memory."""

import ctypes
import multiprocessing
import platform
import resource
import time

import torch

M_MMAP_THRESHOLD = -3  # of malloc.h: blocks of so many bytes are mapped by themselves


def describe(device: str, dtype: str) -> dict:
    """The hardware and the versions that a measurement depends on."""
    from fairseq_posattn.attention.linear import library  # it registers only behind fairseq

    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "clock": "processor" if device == "cpu" else "wall",
        "dtype": dtype,
        "linear": library(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def processor() -> str:
    """The name of the processor, where the system tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            names = {line.split(":")[1].strip() for line in file if line.startswith("model name")}
        return ", ".join(sorted(names)) or platform.processor()
    except OSError:
        return platform.processor()


def now(device: str) -> float:
    """Seconds, once all work given to the device is done.

    On a CPU they are the processor's, all threads together, which others that use it do not delay.
    """
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def peak_bytes(work, device: str) -> int:
    """The most memory that ``work()`` has at a time, beyond what there was before.

    On a CPU it works in a process of its own, and what counts is all that is resident, the code of
    libraries among it; what is freed is given back at once, so that how the heap happens to lie
    does not count. It is forked: PyTorch may not have had several threads before. On a GPU it is
    what PyTorch has allocated.
    """
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_grow, args=(work, send))
    process.start()
    send.close()
    grown: int = receive.recv()  # EOFError if it has failed
    process.join()
    return grown


def _grow(work, send) -> None:
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**16)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work()
    send.send(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))
