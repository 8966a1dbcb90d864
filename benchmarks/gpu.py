"""All measurements that need a GPU, in steps of minutes that can be resumed.

    bash benchmarks/gpu.sh --minutes 9 --results FOLDER    # what fits, most informative first
    bash benchmarks/gpu.sh --results FOLDER kernels tiles  # these parts
    bash benchmarks/gpu.sh --tiny --results FOLDER         # a rehearsal on a CPU

After each step FOLDER/gpu.tar.gz is written with all results and logs. A later run continues from
it: a finished step is not run again, a failed one is. A step stops at its own limit or when the
minutes are over, whichever is first; its results so far are in the archive. Unpack the archive in
benchmarks/results/gpu and run ``python scripts/fill_numbers.py``.
"""

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
ARCHIVE = "gpu.tar.gz"
MECHANISMS = ("dman", "da", "mtsa", "mtsa_identity", "mpsan")
PAIRS = ("dman_iwslt_de_en", "dman_wmt_en_de", "dman_summarization")
# Attention of dman_iwslt_de_en.
FLAGSHIP = ("--dtype", "float16", "--heads", 4, "--features", 128, "--dropout", 0.1)
# Seconds that a step needs at least, and that writing the archive may take.
LEAST, RESERVE = 15, 5


@dataclass(frozen=True)
class Step:
    """A command of a part, with its time limit.

    In the command ``{json}`` is the step's result file, and ``{folder}`` the folder of all results.
    """

    name: str  # stem of its result file and log
    command: tuple[str, ...]
    minutes: float = 8.5


def benchmark(name: str, script: str, *options: object, minutes: float = 4) -> Step:
    """Return the step of a measurement; its script may be followed by one of its names."""
    words = (*options, "--json", "{json}")
    script, *named = script.split()
    command = (PYTHON, f"benchmarks/{script}.py", *named, *map(str, words))
    return Step(name, command, minutes)


def parts(tiny: bool, multi30k: Path | None = None) -> dict[str, list[Step]]:
    """Return the steps of every part, most informative first; ``tiny`` for a CPU.

    ``multi30k`` is the folder of the published files; None if data-bin/ has the prepared ones.
    """
    device, mechanisms, pairs = ("--device", "cuda"), MECHANISMS, PAIRS
    small, search, updates, batches, half = (), (), (), (), ("--dtype", "float16")
    recipe = ("--prepare", "--source", str(multi30k.resolve())) if multi30k else ()
    tests = [PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    if importlib.util.find_spec("xdist") and not tiny:
        tests += ["-n", str(os.cpu_count())]
    lengths = {"flagship": (26, 64, 128), "long": (2048,), "others": (512, 32, 8192, 128, 1024)}
    if tiny:
        device, mechanisms, pairs, half = ("--device", "cpu"), ("dman",), PAIRS[:1], ()
        tests += ["-k", "lone or cannot_return or repeats_from_the_seed"]
        lengths = dict.fromkeys(lengths, (8,))
        sizes = ("--tokens", 8, "--heads", 1, "--features", 16)
        small = (*sizes, "--rounds", 1, "--warmup", 0)
        search = (*sizes, "--lengths", 8, "--choices", 1)
        sizes = ("--sentences", 1, "--source-length", 4, "--target-length", 3, "--warmup", 0)
        updates, batches = (*sizes, "--updates", 1), (*sizes, "--batches", 1, "--beam", 2)
        recipe = ("--tiny", "--dry-run")

    def kernel_tests(name: str) -> Step:
        return Step(name, (*tests, f"tests/attention/test_{name}.py"), 4.5)

    def attention(name: str, *options: object) -> Step:
        chosen = (*device, *options, "--mechanisms", *mechanisms, *small)
        chosen += ("--lengths", *lengths[name])
        return benchmark(f"attention_{name}", "attention", *chosen, minutes=5)

    def tiles(mechanism: str, dtype: str, features: int, *options: object) -> Step:
        chosen = ("--mechanisms", mechanism, "--dtype", dtype, "--features", features, *options)
        name = f"tiles_{mechanism}_{dtype}_{features}"
        return benchmark(name, "tiles", *device, *chosen, *search, "--table", "{folder}/tiles.json")

    def training(pair: str) -> list[Step]:
        chosen = ("--pairs", pair, *device)
        return [
            benchmark(f"update_{pair}", "training parts", *chosen, *half, *updates),
            benchmark(f"switches_{pair}", "training switches", *chosen, *updates),
            benchmark(f"training_{pair}", "training", *chosen, *half, *updates),
            benchmark(f"decoding_{pair}", "decoding", *chosen, *half, *batches),
        ]

    searched = [
        tiles("dman", "float16", 128, "--heads", 4, "--lengths", 64, 128),
        tiles("dman", "bfloat16", 64),
        tiles("mtsa", "bfloat16", 64),
    ]
    return {
        "kernels": [kernel_tests("kernels")],
        "attention": [attention("flagship", *(() if tiny else FLAGSHIP)), attention("long")],
        "tiles": searched[: 1 if tiny else None],
        "training": training(pairs[0]),
        "multi30k": [Step("multi30k", (PYTHON, "examples/recipe.py", "multi30k/run", *recipe))],
        "rest": [
            kernel_tests("kernel_launches"),
            attention("others"),
            *(step for pair in pairs[1:] for step in training(pair)),
        ],
    }


def run(step: Step, folder: Path, seconds: float) -> str:
    """Run a step for at most so many seconds; return its status line."""
    result, log, done = (folder / f"{step.name}{end}" for end in (".json", ".log", ".done"))
    if done.exists():
        return "done before"
    limit = min(60 * step.minutes, seconds)
    if seconds < LEAST:
        return "not started, no time left"
    command = [part.format(json=result, folder=folder) for part in step.command]
    start = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        print("+", *command, file=output, flush=True)
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # a group, which is stopped with its workers
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"not finished in {limit / 60:.1f} minutes; run again to repeat it ({log.name})"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if status:
        return f"FAILED, exit status {status}: {last} ({log.name})"
    done.touch()
    return f"{time.monotonic() - start:.0f} s: {last}"


def pack(folder: Path, results: Path) -> None:
    """Write the archive of all results and logs."""
    unfinished = results / f".{ARCHIVE}"
    with tarfile.open(unfinished, "w:gz") as archive:
        for path in sorted(folder.iterdir()):
            archive.add(path, path.name)
    unfinished.replace(results / ARCHIVE)


def unpack(folder: Path, results: Path) -> None:
    """Restore the results of earlier runs."""
    if (results / ARCHIVE).exists():
        with tarfile.open(results / ARCHIVE) as archive:
            archive.extractall(folder, filter="data")


def measure(chosen: dict[str, list[Step]], folder: Path, results: Path, deadline: float) -> bool:
    """Run the steps until the deadline; return whether all are done."""
    complete = True
    for name, steps in chosen.items():
        for step in steps:
            try:
                status = run(step, folder, deadline - time.monotonic() - RESERVE)
            finally:
                pack(folder, results)
            complete = complete and (folder / f"{step.name}.done").exists()
            print(f"{name} {step.name}: {status}", flush=True)
    return complete


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(parts(tiny=False))
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(names)} (all)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, on the CPU")
    parser.add_argument(
        "--results", type=Path, required=True, help="folder of the archive of results and logs"
    )
    parser.add_argument(
        "--multi30k",
        type=Path,
        metavar="FOLDER",
        help="Multi30k's published files, prepared without a network (default: data-bin/multi30k)",
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after so many minutes")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(names)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; choose of: {', '.join(names)}")
    deadline = time.monotonic() + 60 * arguments.minutes
    results = arguments.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    if arguments.tiny:
        os.environ["TRITON_INTERPRET"] = "1"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    everything = parts(arguments.tiny, arguments.multi30k)
    chosen = {name: everything[name] for name in arguments.parts or names}
    with tempfile.TemporaryDirectory() as folder:
        unpack(Path(folder), results)
        complete = measure(chosen, Path(folder), results, deadline)
    sys.exit(0 if complete else 1)


if __name__ == "__main__":
    main()
