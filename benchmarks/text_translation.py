"""Time from text to text: ``posattn translate`` beside sacremoses, subword-nmt and CTranslate2.

    python benchmarks/text_translation.py --models checkpoints/stock checkpoints/dman --text test.de
    python benchmarks/text_translation.py --models checkpoints/stock --text test.de --int8

Commands have one thread; CTranslate2 (`pip install ctranslate2`) runs the first of --models, a
Transformer with Moses tokens and BPE. Processor time is that of whole commands, and without their
start, the time for a single line, which is also compared with importing PyTorch.
"""

import itertools
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import machine
from tqdm import tqdm

OPTIONS = {
    "models": ([str], "checkpoints with the same data; the first one also by CTranslate2"),
    "text": (..., "file of source sentences"),
    "lines": (1000, "sentences of it"),
    "rounds": (3, "rounds"),
    "int8": (False, "both in int8"),
}
IMPORT = [sys.executable, "-c", "import torch"]
PIPELINE = Path(__file__).with_name("ctranslate2_pipeline.py")


def seconds(command, text):
    """Return the processor time of a command, and the lines it wrote."""
    before, environment = machine.processor_seconds(), os.environ | {"OMP_NUM_THREADS": "1"}
    options = {"capture_output": True, "text": True, "check": True, "env": environment}
    done = subprocess.run(command, input=text, **options)
    return machine.processor_seconds() - before, done.stdout.splitlines()


def measure(arguments):
    from fairseq_posattn.text import manifest

    stock = Path(arguments.models[0])
    languages = manifest.read(stock if stock.is_dir() else stock.parent).languages
    lines = Path(arguments.text).read_text(encoding="utf-8").splitlines()[: arguments.lines]
    texts = {"all": "\n".join(lines) + "\n", "one": f"{lines[0]}\n"}
    int8 = ["--int8"] if arguments.int8 else []
    with tempfile.TemporaryDirectory() as temporary:
        exported, kind = f"{temporary}/exported", "int8" if int8 else "float32"
        export = ["posattn", "export", stock, exported, "--ctranslate2"]
        subprocess.run(export, check=True, stdout=subprocess.DEVNULL)
        commands = {None: [sys.executable, str(PIPELINE), exported, *languages, kind]}
        commands |= {m: ["posattn", "translate", m, "--cpu", *int8] for m in arguments.models}
        used = {key: [] for key in itertools.product(commands, texts)}
        importing = []
        for _ in tqdm(range(arguments.rounds), unit="round"):
            importing.append(seconds(IMPORT, "")[0])
            for (model, amount), times in used.items():
                times.append(seconds(commands[model], texts[amount]))
    theirs = {amount: [time for time, _ in used[None, amount]] for amount in texts}
    for model in arguments.models:
        ours = {amount: [time for time, _ in used[model, amount]] for amount in texts}
        without = [[a - b for a, b in zip(*each.values(), strict=True)] for each in (ours, theirs)]
        pairs = zip(used[model, "all"][0][1], used[None, "all"][0][1], strict=True)
        yield {
            "model": Path(model).stem,
            "seconds": round(statistics.median(theirs["all"]), 2),
            "same": sum(a == b for a, b in pairs),
            "whole": machine.compare(ours["all"], theirs["all"]),
            "without_start": machine.compare(*without),
            "one_line": machine.compare(ours["one"], importing),
        }


def cells(row, report):
    return {
        "model": f"`{row['model']}`{', int8' if report['int8'] else ''}",
        "without start": machine.ratio(row["without_start"]),
        "whole command": machine.ratio(row["whole"]),
        "one line, in times of importing PyTorch": machine.ratio(row["one_line"]),
        "equal translations": row["same"] if row is report["rows"][0] else None,
    }


TABLES, SETTINGS = machine.one_table(cells), ("lines", "rounds", "int8")
BENCHMARKS = {"": machine.Benchmark(OPTIONS, measure, TABLES, SETTINGS)}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
