"""Common parts of the measurements: options, timing in turns, memory, reports.

A report is JSON; beside it stands its Markdown, which the documentation includes. To write the
Markdown of existing reports again:

    python benchmarks/machine.py benchmarks/results/*.json
"""

import argparse
import ctypes
import importlib
import json
import multiprocessing
import platform
import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from tqdm import tqdm

M_MMAP_THRESHOLD = -3  # malloc.h: larger blocks are mapped separately


class _Help(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """The description as it stands, and the default of each option that has one."""

    def _get_help_string(self, action):
        has_default = action.default is not None and action.default is not False
        return super()._get_help_string(action) if has_default else action.help


def make_parser(about: str | None) -> argparse.ArgumentParser:
    """Return a parser with this help text and ``--json``."""
    from fairseq_posattn.common.files import output_file  # imports fairseq_posattn after fairseq

    parser = argparse.ArgumentParser(description=about, formatter_class=_Help)
    parser.add_argument(
        "--json", type=output_file, metavar="FILE", help="write the report here, Markdown beside it"
    )
    return parser


def add_device(parser: argparse.ArgumentParser, dtype: bool = True) -> None:
    """Add ``--device`` and, with ``dtype``, ``--dtype``."""
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="device")
    if dtype:
        types = ["float32", "float16", "bfloat16"]
        parser.add_argument("--dtype", choices=types, default=types[0], help="precision")


def describe(device: str, dtype: str) -> dict:
    """Return hardware, versions and date of a measurement."""
    from fairseq_posattn.attention.cpu import library

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
    """Return the name of the processor."""
    try:
        with open("/proc/cpuinfo") as file:
            names = {line.split(":")[1].strip() for line in file if line.startswith("model name")}
        return ", ".join(sorted(names)) or platform.processor()
    except OSError:
        return platform.processor()


# --- Reports -----------------------------------------------------------------------------------


def table(rows: Sequence[dict]) -> str:
    """Return rows as a Markdown table; the columns are the keys of all rows."""
    from fairseq_posattn.recipes.tables import markdown_table

    header = list(dict.fromkeys(key for row in rows for key in row))
    cells = [["" if row.get(key) is None else str(row[key]) for key in header] for row in rows]
    return markdown_table(header, cells)


def finish(benchmark: str, report: dict, path: str | None, tables: Callable) -> None:
    """Print a report's tables and save it (:func:`save`)."""
    known = [report[key] for key in ("device", "dtype", "torch", "date") if key in report]
    print(*known, sep=", ")
    print(*tables(report).values(), sep="\n\n")
    save(benchmark, report, path, tables)


def save(benchmark: str, report: dict, path: str | None, tables: Callable) -> None:
    """Write a report and its Markdown if ``path`` is given.

    Args:
        benchmark: name of the program, stored in the report.
        report: the measurements.
        path: the JSON file.
        tables: returns the Markdown of a report by name; that of "" goes to FILE.md, that of NAME
            to FILE_NAME.md.
    """
    from fairseq_posattn.common.files import write_json

    if path:
        report = {"benchmark": benchmark, **report}
        write_json(path, report, indent=2)
        write_markdown(Path(path), tables(report))


def write_markdown(path: Path, texts: dict[str, str]) -> None:
    """Write the Markdown of a report beside it."""
    from fairseq_posattn.common.files import write_text

    for name, text in texts.items():
        write_text(path.with_name(f"{path.stem}{'_' * bool(name)}{name}.md"), f"{text}\n")


def name_of_device(report: dict) -> str:
    """Return a report's device without marks."""
    return report["device"].replace("(R)", "").removesuffix(" Processor")


def ratio(row: dict, rounds: str = "") -> str:
    """Return a time ratio with its lowest, highest and number of rounds."""
    count = f", {row[rounds]}" if rounds else ""
    low, high = row["time_ratio_lowest"], row["time_ratio_highest"]
    return f"{row['time_ratio']:.2f} ({low:.2f} to {high:.2f}{count})"


# --- Time and memory ---------------------------------------------------------------------------


def now(device: str) -> float:
    """Return seconds after synchronization; on a CPU those of the processor, all threads."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def seconds_of(work: Callable, device: str) -> float:
    """Return the seconds of ``work()``, after synchronization."""
    start = now(device)
    work()
    return now(device) - start


def seconds_on_gpu(work: Callable, device: str) -> float:
    """Return the seconds of ``work()`` between two events of the GPU, else those of the CPU."""
    if device == "cpu":
        return seconds_of(work, device)
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def take_turns(
    name: str,
    contestants: Sequence[Callable],
    rounds: int,
    warmup: int,
    device: str,
    clock: Callable = seconds_of,
) -> list[list[float]]:
    """Call all contestants round by round; return the seconds of each one's counted rounds.

    Whatever disturbs the machine then disturbs all of them.
    """
    seconds: list[list[float]] = [[] for _ in contestants]
    for number in tqdm(range(warmup + rounds), desc=name, unit="round"):
        for contestant, times in zip(contestants, seconds, strict=True):
            elapsed = clock(contestant, device)
            if number >= warmup:
                times.append(elapsed)
    return seconds


def compare(ours: Sequence[float], stock: Sequence[float]) -> dict:
    """Return median, lowest and highest ratio of our time over the stock model's, by round."""
    ratios = [a / b for a, b in zip(ours, stock, strict=True)]
    return {
        "time_ratio": round(statistics.median(ratios), 3),
        "time_ratio_lowest": round(min(ratios), 3),
        "time_ratio_highest": round(max(ratios), 3),
    }


def beside_stock(
    name: str, ours: Callable, stock: Callable, rounds: int, warmup: int, device: str
) -> dict:
    """Time two functions in turns; return milliseconds of both and the ratio."""
    times = take_turns(name, [ours, stock], rounds, warmup, device)
    milliseconds = [round(1e3 * statistics.median(each), 1) for each in times]
    both = dict(zip(("milliseconds", "stock_milliseconds"), milliseconds, strict=True))
    return {**both, **compare(*times)}


def peak_bytes(work: Callable, device: str, first: Callable = lambda: None) -> int:
    """Return the peak memory of ``work()`` beyond what was in use after ``first()``.

    On a CPU, work() runs in a forked process and the count is of resident memory, with freed blocks
    returned at once; PyTorch must not have used several threads before. On a GPU it is what PyTorch
    has allocated.
    """
    if device == "cuda":
        first()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_measure_growth, args=(work, first, send))
    process.start()
    send.close()
    growth: int = receive.recv()  # EOFError if it failed
    process.join()
    return growth


def _measure_growth(work, first, send) -> None:
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**16)
    first()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    work()
    send.send(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        stored = json.loads(file.read_text(encoding="utf-8"))
        write_markdown(file, importlib.import_module(stored["benchmark"]).tables(stored))
