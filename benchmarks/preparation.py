"""Time, memory and disk of preparing WMT14, beside sacremoses, subword-nmt and fairseq-preprocess.

The text is generated: each pair joins three of the given pairs and two made-up names, so that
lengths and vocabulary are about those of WMT14.

    python benchmarks/preparation.py --text news.de news.en --pairs 4500000
    python benchmarks/preparation.py --text news.de news.en --sentencepiece

With --sentencepiece the text is a custom corpus, beside spm_train, which reads a million random
lines, spm_encode (package sentencepiece of Debian) and fairseq-preprocess.
"""

import contextlib
import itertools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import machine
import numpy
import psutil

SYLLABLES = [first + second for first in "bdfghklmnprstvwz" for second in "aeiou"]
NAMES = ["".join(parts).capitalize() for parts in itertools.product(SYLLABLES, repeat=3)]
NEW_WORDS = {"en": 0.17, "de": 0.12}  # exponents of the distributions of names
HELD_OUT = 3_000  # pairs for validation, and as many for testing
# Files of WMT14 by split.
SPLITS = {"train": "europarl-v7.de-en", "valid": "newstest2013", "test": "newstest2014-deen"}
# What the usual pipeline does; with {side}, to each file.
STEPS = {
    "tokenizing": "sacremoses -q -l {side} -j {jobs} normalize tokenize -a < {raw} "
    "> {folder}/{split}.tok.{side}",
    "learning subwords": "cat {folder}/train.tok.en {folder}/train.tok.de | "
    "subword-nmt learn-bpe -s 32764 > {folder}/codes",
    "subwords": "subword-nmt apply-bpe -c {folder}/codes < {folder}/{split}.tok.{side} "
    "> {folder}/{split}.bpe.{side}",
    "binarizing": "fairseq-preprocess --source-lang en --target-lang de --joined-dictionary "
    "--workers {jobs} --destdir {folder}/bin --trainpref {folder}/train.bpe "
    "--validpref {folder}/valid.bpe --testpref {folder}/test.bpe > {folder}/log 2>&1",
}
# The same with SentencePiece, which needs no tokens.
SENTENCEPIECE_STEPS = {
    "text": "cat {raw} >> {folder}/{split}",
    "learning subwords": "spm_train --input={folder}/train --model_prefix={folder}/spm "
    "--model_type=bpe --vocab_size=32000 --input_sentence_size=1000000 "
    "--shuffle_input_sentence=true --num_threads={jobs}",
    "subwords": "spm_encode --model={folder}/spm.model < {raw} > {folder}/{split}.bpe.{side}",
    "binarizing": STEPS["binarizing"],
}


def write_source(folder, texts, pairs):
    """Write generated text as WMT14's files."""
    lines = [Path(path).read_text(encoding="utf-8").splitlines() for path in texts]
    generator = numpy.random.default_rng(1)
    sizes = dict.fromkeys(SPLITS.values(), HELD_OUT) | {SPLITS["train"]: pairs}
    sizes |= {"commoncrawl.de-en": 1, "news-commentary-v9.de-en": 1}
    for name, count in sizes.items():
        chosen = generator.integers(len(lines[0]), size=(count, 3), dtype=numpy.int32)
        for side, sentences in zip(("de", "en"), lines, strict=True):
            # Rare names are as many as in a text whose words follow Zipf's law.
            drawn = numpy.minimum(generator.pareto(NEW_WORDS[side], (count, 2)), 1e15)
            numbers = drawn.astype(numpy.int64)
            with open(folder / f"{name}.{side}", "w", encoding="utf-8") as file:
                for (first, second, third), (left, right) in zip(chosen, numbers, strict=True):
                    file.write(
                        f"{sentences[first]} {_name(left)} {sentences[second]} {_name(right)} "
                        f"{sentences[third]}\n"
                    )


def _name(number):
    rest, last = divmod(int(number) % len(NAMES) ** 2, len(NAMES))
    return (NAMES[rest].lower() if rest else "") + NAMES[last]


def _processor_seconds():
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def _memory():  # of all processes, with shared pages counted once
    this, total = psutil.Process(), 0
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended
            total += process.memory_full_info().pss
    return total


@contextlib.contextmanager
def metered(pipeline, stage, folder):
    """Yield a row, which gets the time, memory and disk of the block; processes count, too."""
    row, peak, is_over = {"pipeline": pipeline, "stage": stage}, 0, threading.Event()

    def watch():
        nonlocal peak
        while not is_over.wait(1):
            peak = max(peak, _memory())

    threading.Thread(target=watch, daemon=True).start()
    processor, wall = _processor_seconds(), time.monotonic()
    yield row
    is_over.set()
    row["processor_seconds"] = round(_processor_seconds() - processor, 1)
    row["wall_seconds"] = round(time.monotonic() - wall, 1)
    row["peak_mb"] = peak >> 20
    row["disk_mb"] = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) >> 20
    print(row, flush=True)


def measure_ours(source, folder, jobs, sentencepiece):
    """Return the measurements of each stage of ``posattn prepare translation``."""
    from fairseq_posattn.preparation.commands.prepare import prepare
    from fairseq_posattn.preparation.stages import Stages

    rows, run = [], Stages.run

    def measured(stages, name, *arguments, **settings):
        with metered("ours", name, folder) as row:
            run(stages, name, *arguments, **settings)
        rows.append(row)

    Stages.run = measured
    words = ["wmt14_en_de", "--source", source]
    if sentencepiece:
        words = ["own", "--vocabulary-size", 32000]
        for split, name in SPLITS.items():
            words += [f"--{split}", *(source / f"{name}.{side}" for side in ("en", "de"))]
    words += ["--dest", folder, "--jobs", jobs]
    if status := prepare("translation", list(map(str, words))):
        sys.exit(status)
    return [row for row in rows if row["stage"] != "manifest"]


def measure_usual(source, folder, jobs, steps):
    folder.mkdir()
    files = [
        {"split": split, "side": side, "raw": source / f"{name}.{side}"}
        for split, name in SPLITS.items()
        for side in ("en", "de")
    ]
    for step, command in steps.items():
        with metered("usual", step, folder) as row:
            for file in files if "{raw}" in command or "{side}" in command else files[:1]:
                line = command.format(folder=folder, jobs=jobs, **file)
                subprocess.run(line, shell=True, check=True, stderr=subprocess.DEVNULL)
        yield row


def measure(arguments):
    """Yield a row for each stage of both preparations."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        source, usual = Path(folder, "source"), Path(folder, "usual")
        source.mkdir()
        write_source(source, arguments.text, arguments.pairs)
        if not arguments.ours_only:
            steps = SENTENCEPIECE_STEPS if arguments.sentencepiece else STEPS
            yield from measure_usual(source, usual, arguments.jobs, steps)
            shutil.rmtree(usual)
        ours = Path(folder, "ours")
        yield from measure_ours(source, ours, arguments.jobs, arguments.sentencepiece)


def tables(report):
    rows = []
    by_sentencepiece = report.get("sentencepiece")
    steps = SENTENCEPIECE_STEPS if by_sentencepiece else STEPS
    for number, stage in enumerate((*steps, "all")):
        pairs = f"{report['pairs']:,}" + (", SentencePiece" if by_sentencepiece else "")
        row = {"pairs": pairs, "stage": stage}
        for who, name in (("ours", "ours"), ("usual", "usual pipeline")):
            stages = [step for step in report["rows"] if step["pipeline"] == who]
            is_sum = stage == "all" and len(stages) == len(steps)
            chosen = stages if is_sum else stages[number : number + 1]
            seconds = sum(step["processor_seconds"] for step in chosen)
            row[f"{name}: processor s"] = f"{seconds:,.0f}" if chosen else ""
            peak = max((step["peak_mb"] for step in chosen), default=None)
            row[f"{name}: peak MB"] = peak and f"{peak:,}"
            row[f"{name}: MB on disk"] = f"{chosen[-1]['disk_mb']:,}" if chosen else ""
        if any("processor" in name and value for name, value in row.items()):
            rows.append(row)
    return {"": machine.table(rows)}


OPTIONS = {
    "text": ([...], "DE EN: files of real pairs"),
    "pairs": (4_500_000, "training pairs"),
    "sentencepiece": (False, "SentencePiece of custom text"),
    "ours_only": (False, "skip the usual pipeline"),
    "jobs": (2, "processes"),
    "folder": (str, "folder of temporary files"),
}
BENCHMARKS = {"": machine.Benchmark(OPTIONS, measure, tables, ("pairs", "jobs", "sentencepiece"))}

if __name__ == "__main__":
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    machine.main(BENCHMARKS, __doc__)
