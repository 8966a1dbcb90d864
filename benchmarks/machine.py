"""What a measurement ran on, for the head of every report, and waiting for the device."""

import platform
import time

import torch


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
