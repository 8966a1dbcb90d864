"""What measurements have in common: options, the head of a report, turns, time and memory."""

import argparse
import ctypes
import multiprocessing
import platform
import resource
import statistics
import time

import torch
from tqdm import tqdm

M_MMAP_THRESHOLD = -3  # of malloc.h: blocks of so many bytes are mapped by themselves


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """A text as it stands, and of each option its default, if it has one."""

    def _get_help_string(self, action):
        has_default = action.default is not None and action.default is not False
        return super()._get_help_string(action) if has_default else action.help


def make_parser(about: str | None) -> argparse.ArgumentParser:
    """A parser whose help has this text, with ``--json``; see :func:`keep`."""
    from fairseq_posattn.common.files import output_file  # it registers only behind fairseq

    parser = argparse.ArgumentParser(description=about, formatter_class=_Help)
    parser.add_argument(
        "--json", type=output_file, metavar="FILE", help="also write the results here"
    )
    return parser


def add_device(parser: argparse.ArgumentParser, dtype: bool = True) -> None:
    """The options that say where is measured and, if that is chosen, in which precision."""
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="where")
    if dtype:
        parser.add_argument(
            "--dtype",
            choices=["float32", "float16", "bfloat16"],
            default="float32",
            help="precision",
        )


def keep(report: dict, path: str | None) -> None:
    """Write what was measured, if it is to be written."""
    from fairseq_posattn.common.files import write_json

    if path:
        write_json(path, report, indent=2)


def describe(device: str, dtype: str) -> dict:
    """The hardware and the versions that a measurement depends on."""
    from fairseq_posattn.attention.cpu.linear import library

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


def take_turns(name: str, contestants: list, rounds: int, warmup: int, unit: str) -> list[list]:
    """Seconds of every counted round of each contestant; a contestant is a function to time."""
    seconds = [[] for _ in contestants]
    for number in tqdm(range(warmup + rounds), desc=name, unit=unit):
        for contestant, times in zip(contestants, seconds, strict=True):
            elapsed = contestant()
            if number >= warmup:
                times.append(elapsed)
    return seconds


def compare(ours: list[float], theirs: list[float]) -> dict:
    """Our time as a multiple of theirs, round by round: median, lowest and highest."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    return {
        "time_ratio": round(statistics.median(ratios), 3),
        "time_ratio_lowest": round(min(ratios), 3),
        "time_ratio_highest": round(max(ratios), 3),
    }


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
