"""Common parts of the measurements: options, reports, timing in turns, memory.

Each program of this folder names its measurements in ``BENCHMARKS``; the name "" is the default.
A report is JSON, saved after every row; beside it stands its Markdown, which the documentation
includes. To write the Markdown of existing reports again:

    python benchmarks/machine.py benchmarks/results/*.json
"""

import argparse
import ctypes
import importlib
import json
import logging
import multiprocessing
import platform
import re
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from fairseq_posattn.common.files import output_file, write_json, write_text  # noqa: E402
from fairseq_posattn.recipes.tables import markdown_table  # noqa: E402

DEVICE = {
    "device": ("cpu", "device", ["cpu", "cuda"]),
    "dtype": ("float32", "precision", ["float32", "float16", "bfloat16"]),
}


def describe(arguments: argparse.Namespace) -> dict:
    """Return hardware, versions and date of a measurement."""
    from fairseq_posattn.attention.cpu import library  # after fairseq, which it patches

    on_gpu = getattr(arguments, "device", "cpu") == "cuda"
    return {
        "device": torch.cuda.get_device_name() if on_gpu else processor(),
        "threads": torch.get_num_threads(),
        "clock": "wall" if on_gpu else "processor",
        "dtype": getattr(arguments, "dtype", "float32"),
        "linear": library(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


class Benchmark(NamedTuple):
    """A measurement."""

    # ``name: (default, help)`` or ``(default, help, choices)``. A list takes several values, False
    # is a switch, a type has no default, and ``...`` is required.
    options: dict[str, tuple]
    measure: Callable[[argparse.Namespace], Iterable[dict]]  # yields the rows of the report
    tables: Callable[[dict], dict[str, str]]  # its Markdown: "" of FILE.md, NAME of FILE_NAME.md
    settings: Sequence[str] = ()  # options that the report repeats
    describe: Callable[[argparse.Namespace], dict] = describe  # its further entries


def make_parser(about: str | None, options: dict[str, tuple]) -> argparse.ArgumentParser:
    """Return a parser of the options of a :class:`Benchmark`, and ``--json``."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=about, formatter_class=formatter)
    text = "write the report here, Markdown beside it"
    parser.add_argument("--json", type=output_file, metavar="FILE", help=text)
    for name, (default, text, *choices) in options.items():
        first = default[0] if isinstance(default, list) else default
        keywords: dict = {"action": "store_true"}
        if first is not False:
            kind = str if first is ... else first if isinstance(first, type) else type(first)
            keywords = {"type": kind, "required": first is ..., "choices": [*choices, None][0]}
            keywords["nargs"] = "*" if isinstance(default, list) else None
            if first not in (..., kind):
                keywords["default"], text = default, f"{text} (default: %(default)s)"
        parser.add_argument(f"--{name.replace('_', '-')}", help=text, **keywords)
    return parser


def main(benchmarks: dict[str, Benchmark], about: str | None) -> dict:
    """Run the measurement that the first argument names; print, save and return its report."""
    words = sys.argv[1:]
    name = words.pop(0) if words and words[0] in benchmarks else ""
    benchmark = benchmarks[name]
    arguments = make_parser(about, benchmark.options).parse_args(words)
    logging.disable(logging.INFO)
    torch.manual_seed(1)
    report = {"benchmark": f"{Path(sys.argv[0]).stem} {name}".strip()}
    report |= benchmark.describe(arguments)
    report |= {setting: getattr(arguments, setting) for setting in benchmark.settings}
    report["rows"] = []
    for row in benchmark.measure(arguments):
        report["rows"].append(row)
        if arguments.json:
            write_report(Path(arguments.json), report, benchmark)
    print(*(report[key] for key in ("device", "dtype", "torch", "date") if key in report), sep=", ")
    print(*benchmark.tables(report).values(), sep="\n\n")
    return report


def write_report(path: Path, report: dict, benchmark: Benchmark) -> None:
    write_json(path, report, indent=2)
    for name, text in benchmark.tables(report).items():
        write_text(path.with_name(f"{path.stem}{'_' * bool(name)}{name}.md"), f"{text}\n")


def processor() -> str:
    """Return the processor's name, with its vector instructions where they are not AVX-512."""
    cpuinfo, vectors = Path("/proc/cpuinfo"), torch.backends.cpu.get_cpu_capability()
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    name = re.search(r"^model name\s*: (.*)", text, re.M)
    name = name[1] if name else platform.processor()
    name = name.replace("(R)", "").removesuffix(" Processor")  # as in the tables
    return name if vectors == "AVX512" else f"{name}, {vectors}"


def table(rows: Sequence[dict]) -> str:
    """Return rows as a Markdown table; the columns are the keys of all rows."""
    header = list(dict.fromkeys(key for row in rows for key in row))
    cells = [["" if row.get(key) is None else str(row[key]) for key in header] for row in rows]
    return markdown_table(header, cells)


def one_table(cells: Callable[[dict, dict], dict]) -> Callable[[dict], dict[str, str]]:
    """Return ``tables`` of a benchmark with one table; ``cells`` takes a row and the report."""
    return lambda report: {"": table([cells(row, report) for row in report["rows"]])}


def ratio(row: dict, rounds: str = "") -> str:
    """Return a time ratio with its lowest, highest and number of rounds."""
    text = "{time_ratio:.2f} ({time_ratio_lowest:.2f} to {time_ratio_highest:.2f}".format(**row)
    return f"{text}, {row[rounds]})" if rounds else f"{text})"


def seconds_of(work: Callable, device: str) -> float:
    """Return the seconds of ``work()``: between two events of the GPU, or the processor's."""
    if device == "cpu":
        before = time.process_time()  # of all threads
        work()
        return time.process_time() - before
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def processor_seconds() -> float:
    """Return the processor time of this process and of its ended children."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def take_turns(
    name: str, contestants: dict[Any, Callable], rounds: int, warmup: int, device: str
) -> dict[Any, list[float]]:
    """Call all contestants round by round; return the seconds of the counted rounds of each.

    Whatever disturbs the machine then disturbs all of them.
    """
    seconds: dict[Any, list[float]] = {contestant: [] for contestant in contestants}
    for _ in tqdm(range(warmup + rounds), desc=name, unit="round"):
        for contestant, work in contestants.items():
            seconds[contestant].append(seconds_of(work, device))
    return {contestant: times[warmup:] for contestant, times in seconds.items()}


def milliseconds(times: Sequence[float], digits: int = 1) -> float:
    """Return the median of seconds in milliseconds."""
    return round(1000 * statistics.median(times), digits)


def compare(ours: Sequence[float], stock: Sequence[float]) -> dict:
    ratios = [a / b for a, b in zip(ours, stock, strict=True)]
    numbers = {"": statistics.median(ratios), "_lowest": min(ratios), "_highest": max(ratios)}
    return {f"time_ratio{end}": round(number, 3) for end, number in numbers.items()}


def peak_bytes(work: Callable, device: str, first: Callable = lambda: None) -> int:
    """Return the peak memory of ``work()`` beyond what was in use after ``first()``.

    On a GPU it is what PyTorch has allocated, on a CPU resident memory of a forked process.
    """
    if device == "cuda":
        first()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return torch.cuda.max_memory_allocated() - before
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def send_growth() -> None:
        torch.set_num_threads(1)  # those of this process stayed behind: waiting for them never ends
        ctypes.CDLL(None).mallopt(-3, 2**16)  # M_MMAP_THRESHOLD: larger blocks are mapped alone
        first()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        work()
        send.send(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))

    process = context.Process(target=send_growth)
    process.start()
    send.close()
    growth: int = receive.recv()  # EOFError if it failed
    process.join()
    return growth


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        stored = json.loads(file.read_text(encoding="utf-8"))
        module, _, name = stored["benchmark"].partition(" ")
        write_report(file, stored, importlib.import_module(module).BENCHMARKS[name])
