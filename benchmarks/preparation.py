"""Time, memory and disk of preparing WMT14, beside sacremoses, subword-nmt and fairseq-preprocess.

    python benchmarks/preparation.py --text news.de news.en --pairs 4500000
    python benchmarks/preparation.py --text news.de news.en --sentencepiece

Each pair joins three of the given pairs and two made-up names, so that lengths and vocabulary are
about those of WMT14. With --sentencepiece the text is a custom corpus; spm_train reads
a million random lines, and spm_encode (package sentencepiece of Debian) writes the subwords.
"""

import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
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
WITH_TOKENS = {
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
WITHOUT_TOKENS = {
    "text": "cat {raw} >> {folder}/{split}",
    "learning subwords": "spm_train --input={folder}/train --model_prefix={folder}/spm "
    "--model_type=bpe --vocab_size=32000 --input_sentence_size=1000000 "
    "--shuffle_input_sentence=true --num_threads={jobs}",
    "subwords": "spm_encode --model={folder}/spm.model < {raw} > {folder}/{split}.bpe.{side}",
    "binarizing": WITH_TOKENS["binarizing"],
}
STEPS = {False: WITH_TOKENS, True: WITHOUT_TOKENS}  # by --sentencepiece


def write_source(folder, texts, pairs):
    """Write generated text as WMT14's files."""
    texts = [Path(path).read_text(encoding="utf-8").splitlines() for path in texts]
    generator = numpy.random.default_rng(1)
    sizes = dict.fromkeys(SPLITS.values(), HELD_OUT) | {SPLITS["train"]: pairs}
    sizes |= {"commoncrawl.de-en": 1, "news-commentary-v9.de-en": 1}
    for name, count in sizes.items():
        chosen = generator.integers(len(texts[0]), size=(count, 3), dtype=numpy.int32)
        for side, text in zip(("de", "en"), texts, strict=True):
            # Rare names are as many as in a text whose words follow Zipf's law.
            drawn = numpy.minimum(generator.pareto(NEW_WORDS[side], (count, 2)), 1e15)
            with open(folder / f"{name}.{side}", "w", encoding="utf-8") as file:
                for (a, b, c), names in zip(chosen, drawn.astype(numpy.int64), strict=True):
                    left, right = map(_name, names)
                    file.write(f"{text[a]} {left} {text[b]} {right} {text[c]}\n")


def _name(number):
    rest, last = divmod(int(number) % len(NAMES) ** 2, len(NAMES))
    return (NAMES[rest].lower() if rest else "") + NAMES[last]


@contextlib.contextmanager
def metered(pipeline, stage, folder):
    """Yield a row, which gets the time, memory and disk of the block; processes count, too."""
    row, peak, is_over = {"pipeline": pipeline, "stage": stage}, 0, threading.Event()

    def watch():
        nonlocal peak
        while not is_over.wait(1):
            total, this = 0, psutil.Process()
            for process in (this, *this.children(recursive=True)):
                with contextlib.suppress(psutil.Error):  # it has ended
                    total += process.memory_full_info().pss  # counts shared pages once
            peak = max(peak, total)

    threading.Thread(target=watch, daemon=True).start()
    before = machine.processor_seconds()
    yield row
    is_over.set()
    row["processor_seconds"] = round(machine.processor_seconds() - before, 1)
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
        for (split, name), side in itertools.product(SPLITS.items(), ("en", "de"))
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
        source, usual, ours = (Path(folder, name) for name in ("source", "usual", "ours"))
        source.mkdir()
        write_source(source, arguments.text, arguments.pairs)
        if not arguments.ours_only:
            yield from measure_usual(source, usual, arguments.jobs, STEPS[arguments.sentencepiece])
            shutil.rmtree(usual)
        yield from measure_ours(source, ours, arguments.jobs, arguments.sentencepiece)


def tables(report):
    rows, steps = [], STEPS[is_other := report.get("sentencepiece", False)]
    pairs = f"{report['pairs']:,}{', SentencePiece' * is_other}"
    for number, stage in enumerate((*steps, "all")):
        row = {"pairs": pairs, "stage": stage}
        for name in ("ours", "usual pipeline"):
            stages = [step for step in report["rows"] if name.startswith(step["pipeline"])]
            is_sum = stage == "all" and len(stages) == len(steps)
            chosen = stages if is_sum else stages[number : number + 1]
            numbers = {
                "processor s": f"{sum(step['processor_seconds'] for step in chosen):,.0f}",
                "peak MB": f"{max((step['peak_mb'] for step in chosen), default=0):,}",
                "MB on disk": f"{sum(step['disk_mb'] for step in chosen[-1:]):,}",
            }
            row |= {f"{name}: {key}": numbers[key] if chosen else None for key in numbers}
        if any(list(row.values())[2:]):
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
