"""All measurements that need a GPU, in parts of minutes that can be resumed.

    bash benchmarks/gpu.sh                   # everything, most informative part first
    bash benchmarks/gpu.sh kernels attention # these parts
    bash benchmarks/gpu.sh --tiny            # a rehearsal on any machine, in Triton's interpreter

A part is a list of commands, each with a result file and a limit of minutes. A finished command is
not run again; a failed one is reported with its log, and the others continue. Afterwards run
``python scripts/fill_numbers.py``, which writes the blocks of docs/fused_attention.md.
"""

import argparse
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from fairseq_posattn.common.files import write_text  # noqa: E402

PYTHON = sys.executable
LENGTHS = (512, 2048, 128, 32, 1024, 4096, 8192, 64, 256)
MECHANISMS = ("dman", "da", "mtsa", "mtsa_identity", "mpsan")
PAIRS = ("dman_iwslt_de_en", "dman_wmt_en_de", "dman_summarization")


@dataclass(frozen=True)
class Step:
    """A command of a part.

    Attributes:
        name: stem of its result file and log.
        command: ``{json}`` stands for the result file, ``{folder}`` for the folder of all results.
        minutes: time limit; partial results must be saved by then.
    """

    name: str
    command: tuple[str, ...]
    minutes: float = 8.5


def benchmark(script: str, *options: object) -> tuple[str, ...]:
    return (PYTHON, f"benchmarks/{script}.py", *map(str, options), "--json", "{json}")


def parts(tiny: bool, multi30k: Path | None = None) -> dict[str, list[Step]]:
    """Return the commands of every part, most informative first; ``tiny`` for a CPU.

    Args:
        tiny: use tiny sizes.
        multi30k: folder of the published files; None if data-bin/ has the prepared ones.
    """
    device = ("--device", "cpu" if tiny else "cuda")
    kernels = (PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    lengths, mechanisms, pairs = LENGTHS, MECHANISMS, PAIRS
    attention, tiles, updates, batches = (), (), (), ()
    recipe = ("--prepare", "--source", str(multi30k.resolve())) if multi30k else ()
    files = ("kernels", "kernel_launches")
    if tiny:
        lengths, mechanisms, pairs, files = (8,), ("dman",), PAIRS[:1], ("kernel_launches",)
        kernels += ("-n", "0", "-k", "lone or repeat or cannot_return")
        attention = ("--tokens", 8, "--heads", 1, "--features", 16, "--rounds", 1, "--warmup", 0)
        tiles = ("--tokens", 8, "--heads", 1, "--features", 16, "--lengths", 8, "--choices", 1)
        tiles += ("--table", "{folder}/searched.json")
        sizes = ("--sentences", 1, "--source-length", 4, "--target-length", 3, "--warmup", 0)
        updates, batches = (*sizes, "--updates", 1), (*sizes, "--batches", 1, "--beam", 2)
        recipe = ("--tiny", "--dry-run")
    compiled = [
        Step(
            f"switches_compiled_{pair}",
            benchmark("switches", "--pairs", pair, *device, *updates, "--compile"),
        )
        for pair in pairs[: 0 if tiny else 1]  # compiles for minutes
    ]
    half = () if tiny else ("--dtype", "float16")
    compared = (*device, "--mechanisms", *mechanisms, *attention, "--lengths")
    return {
        "kernels": [Step(name, (*kernels, f"tests/attention/test_{name}.py")) for name in files],
        "attention": [
            Step(f"attention_{length}", benchmark("attention", *compared, length))
            for length in lengths
        ],
        "training": [
            Step(f"{script}_{pair}", benchmark(script, "--pairs", pair, *device, *options))
            for pair in pairs
            for script, options in (
                ("training", (*half, *updates)),
                ("decoding", (*half, *batches)),
                ("update", (*half, *updates)),
                ("switches", updates),
            )
        ]
        + compiled,
        "tiles": [
            Step(f"tiles_{name}", benchmark("tiles", *device, "--mechanisms", name, *tiles))
            for name in mechanisms
            if name in ("dman", "mtsa")  # DA and mtsa_identity use the same kernels
        ],
        "multi30k": [
            Step("multi30k", (PYTHON, "examples/recipe.py", "multi30k/run", *recipe)),
        ],
    }


def run(step: Step, results: Path) -> str:
    """Run a step; return its status line."""
    result, log, done = (results / f"{step.name}{end}" for end in (".json", ".log", ".done"))
    if done.exists():
        return "done before"
    command = [part.format(json=result, folder=results) for part in step.command]
    start = time.monotonic()
    with log.open("w", encoding="utf-8") as output:
        print("+", *command, file=output, flush=True)
        try:
            status = subprocess.run(
                command,
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                timeout=60 * step.minutes,
            ).returncode
        except subprocess.TimeoutExpired:
            return f"not finished in {step.minutes} minutes; run again to go on ({log})"
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    if status:
        return f"FAILED, exit status {status}: {last} ({log})"
    write_text(done, "")
    return f"{time.monotonic() - start:.0f} s: {last}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(parts(tiny=False))
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(names)} (all)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, on the CPU")
    parser.add_argument(
        "--results",
        type=Path,
        default=ROOT / "benchmarks" / "results" / "gpu",
        help="folder of the results and logs (%(default)s)",
    )
    parser.add_argument(
        "--multi30k",
        type=Path,
        metavar="FOLDER",
        help="Multi30k's published files, prepared without a network (default: data-bin/multi30k)",
    )
    parser.add_argument("--minutes", type=float, help="start no step after so many minutes")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(names)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; choose of: {', '.join(names)}")
    results = arguments.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    if arguments.tiny:
        os.environ["TRITON_INTERPRET"] = "1"
    start, failed = time.monotonic(), False
    for name, steps in parts(arguments.tiny, arguments.multi30k).items():
        if arguments.parts and name not in arguments.parts:
            continue
        for step in steps:
            if arguments.minutes and time.monotonic() - start > 60 * arguments.minutes:
                print(f"{name} {step.name}: not started, over {arguments.minutes} minutes")
                continue
            status = run(step, results)
            failed = failed or not (results / f"{step.name}.done").exists()
            print(f"{name} {step.name}: {status}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
