"""All measurements that need a GPU, in steps of minutes that can be resumed.

    bash benchmarks/gpu.sh --minutes 9 --results FOLDER    # what fits, most informative first
    bash benchmarks/gpu.sh --results FOLDER kernels tiles  # these parts
    bash benchmarks/gpu.sh --tiny --results FOLDER         # a rehearsal on a CPU

After each step FOLDER/gpu.tar.gz is written with all results and logs; a later run repeats failed
and unfinished steps alone. A step stops at its limit or when the minutes are over. Unpack the
archive in benchmarks/results/gpu and run ``python scripts/fill_numbers.py``.
"""

import argparse
import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE = "gpu.tar.gz"
# Seconds that a step needs at least, and that writing the archive may take.
LEAST, RESERVE = 15, 5

TESTS = "-m pytest -q -p no:cacheprovider tests/attention/"
ON_GPU = "--json {json} --device cuda"
ATTENTION = f"benchmarks/attention.py {ON_GPU} --implementations reference sdpa triton auto"
TILES = f"benchmarks/attention.py tiles {ON_GPU} --mechanisms"
POSITIONS = "rope alibi t5 kerple fire cope forget tener gaussian"
# Pairs of models with the sentences that make up some 4,096 tokens.
PAIRS = {"dman_iwslt_de_en": 157, "dman_wmt_en_de": 136, "dman_summarization": 8}


def steps_of(pair: str) -> dict[str, str]:
    chosen = f"{ON_GPU} --pairs {pair} --sentences {PAIRS[pair]}"
    return {
        f"switches_{pair}": f"benchmarks/training.py switches {chosen}",
        f"training_{pair}": f"benchmarks/training.py {chosen} --dtype float16",
        f"decoding_{pair}": f"benchmarks/decoding.py {chosen} --dtype float16",
    }


# The parts, most informative first: the arguments of Python by the name of the step, which is the
# stem of its result file, ``{json}``, and of its log.
PARTS = {
    "kernels": {
        "kernels": f"{TESTS}test_kernels.py tests/attention/test_fused.py "
        "tests/compat/test_cuda_graphs.py",
    },
    "attention": {
        "attention_long": f"{ATTENTION} --lengths 2048",
        "attention_positions": f"{ATTENTION} --lengths 128 2048 --mechanisms {POSITIONS}",
        # As of dman_iwslt_de_en.
        "attention_flagship": f"{ATTENTION} --lengths 26 64 128 --dtype float16 --heads 4 "
        "--features 128 --dropout 0.1",
    },
    "training": steps_of("dman_iwslt_de_en"),
    "tiles": {
        "tiles_dman_float16_128": f"{TILES} dman --dtype float16 --features 128 --heads 4 "
        "--lengths 64 128",
        "tiles_dman_bfloat16_64": f"{TILES} dman --dtype bfloat16 --features 64",
        "tiles_mtsa_bfloat16_64": f"{TILES} mtsa --dtype bfloat16 --features 64",
    },
    "multi30k": {
        "multi30k_graphs": "examples/recipe.py multi30k/run --rows DMAN --precision bf16 "
        "-- --cuda-graphs --required-seq-len-multiple 8",
        "multi30k": "examples/recipe.py multi30k/run",
    },
    "rest": {
        "kernel_launches": f"{TESTS}test_kernel_launches.py",
        "compiled_kernels": f"{TESTS}test_compiled_kernels.py",
        "attention_others": f"{ATTENTION} --lengths 512 32 8192 128 1024",
        **steps_of("dman_wmt_en_de"),
        **steps_of("dman_summarization"),
    },
}
MINUTES = {"kernels": 4.5, "kernel": 4.5, "attention": 5, "multi30k": 8.5}  # others: 4
# Arguments of a rehearsal, by the start of the step's name; the last value of an option counts.
SMALL = "--device cpu --tokens 8 --heads 1 --features 16 --lengths 8"
PAIR = "--device cpu --sentences 1 --source-length 4 --target-length 3 --warmup 0"
TINY = {
    **dict.fromkeys(("kernels", "kernel", "compiled"), "--collect-only"),
    "multi30k": "--tiny --dry-run",
    "attention": f"{SMALL} --mechanisms dman --dtype float32 --dropout 0 --rounds 1 --warmup 0",
    "tiles": f"{SMALL} --choices 1",
    "switches": f"{PAIR} --updates 1",
    "training": f"{PAIR} --updates 1 --dtype float32",
    "decoding": f"{PAIR} --batches 1 --beam 2 --dtype float32",
}
# Left out of a rehearsal, by the end of the step's name.
LEFT_OUT = ("dman_wmt_en_de", "dman_summarization", "_64")


class Step(NamedTuple):
    """A command of a part, and the minutes that it may take."""

    name: str
    command: tuple[str, ...]
    minutes: float = 4


def parts(tiny: bool, multi30k: Path | None = None) -> dict[str, list[Step]]:
    """Return the steps of every part; ``multi30k`` is the folder of the published files."""
    steps: dict[str, list[Step]] = {part: [] for part in PARTS}
    for part, commands in PARTS.items():
        for name, command in commands.items():
            kind, words = name.partition("_")[0], shlex.split(command)
            index = 2 if kind == "multi30k" else len(words)  # before flags of fairseq-train
            if tiny and name.endswith(LEFT_OUT):
                continue
            elif tiny:
                words[index:index] = shlex.split(TINY[kind])
            elif words[0] == "-m" and importlib.util.find_spec("xdist"):
                words += ["-n", str(os.cpu_count())]
            elif kind == "multi30k" and multi30k:
                words[index:index] = ["--prepare", "--source", str(multi30k.resolve())]
            steps[part].append(Step(name, (sys.executable, *words), MINUTES.get(kind, 4)))
    return steps


def run(step: Step, folder: Path, seconds: float) -> str:
    """Run a step for at most so many seconds; return its status line."""
    result, log, done = (folder / f"{step.name}{end}" for end in (".json", ".log", ".done"))
    if done.exists():
        return "done before"
    if seconds < LEAST:
        return "not started, no time left"
    limit, start = min(60 * step.minutes, seconds), time.monotonic()
    command = [part.format(json=result) for part in step.command]
    with log.open("w", encoding="utf-8") as output:
        print("+", *command, file=output, flush=True)
        streams = {"stdin": subprocess.DEVNULL, "stdout": output, "stderr": subprocess.STDOUT}
        # A new session is a group, which is stopped with its workers.
        process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **streams)
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            return f"not finished in {limit / 60:.1f} minutes; run again to repeat it ({log.name})"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    last = log.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2].strip()
    if status:
        return f"FAILED, exit status {status}: {last} ({log.name})"
    done.touch()
    return f"{time.monotonic() - start:.0f} s: {last}"


def measure(chosen: dict[str, list[Step]], folder: Path, results: Path, deadline: float) -> bool:
    """Run the steps until the deadline, archive after each; return whether all are done."""
    complete = True
    for name, steps in chosen.items():
        for step in steps:
            try:
                status = run(step, folder, deadline - time.monotonic() - RESERVE)
            finally:
                unfinished = shutil.make_archive(str(results / ".unfinished"), "gztar", folder)
                os.replace(unfinished, results / ARCHIVE)
            complete = complete and (folder / f"{step.name}.done").exists()
            print(f"{name} {step.name}: {status}", flush=True)
    return complete


def main() -> None:
    formatter, names = argparse.RawDescriptionHelpFormatter, ", ".join(PARTS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{names} (default: all)")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes, on the CPU")
    about = "folder of the archive of results and logs"
    parser.add_argument("--results", type=Path, required=True, metavar="FOLDER", help=about)
    about = "Multi30k's published files, prepared without a network (default: data-bin/multi30k)"
    parser.add_argument("--multi30k", type=Path, metavar="FOLDER", help=about)
    parser.add_argument("--minutes", type=float, default=1e6, help="stop after so many minutes")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"no part {', '.join(sorted(unknown))}; choose from: {names}")
    deadline, results = time.monotonic() + 60 * arguments.minutes, arguments.results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    if arguments.tiny:
        os.environ["TRITON_INTERPRET"] = "1"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    everything = parts(arguments.tiny, arguments.multi30k)
    chosen = {name: everything[name] for name in arguments.parts or PARTS}
    with tempfile.TemporaryDirectory() as folder:
        if (results / ARCHIVE).exists():
            shutil.unpack_archive(results / ARCHIVE, folder)
        complete = measure(chosen, Path(folder), results, deadline)
    sys.exit(0 if complete else 1)


if __name__ == "__main__":
    main()
