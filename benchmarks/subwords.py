"""BLEU of SentencePiece, the default for custom text, beside Moses and BPE of equal size.

    python benchmarks/subwords.py --name "Multi30k, German to English" --out runs \
        --train train.de train.en --valid val.de val.en --test test.de test.en

Both trainings have the same flags and seeds; a small Transformer, the mean of its last five
checkpoints, translates the raw test set to plain text. Finished steps are not repeated.
"""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import machine

from fairseq_posattn.training.commands.train import PLUGIN

MODEL = " ".join(
    f"--{side}-layers 2 --{side}-embed-dim 128 --{side}-ffn-embed-dim 256 "
    f"--{side}-attention-heads 4 --{side}-normalize-before"
    for side in ("encoder", "decoder")
)
TRAINING = (
    f"--arch transformer_iwslt_de_en {MODEL} --share-all-embeddings --dropout 0.1 "
    "--attention-dropout 0 --activation-dropout 0 --criterion label_smoothed_cross_entropy "
    "--label-smoothing 0.1 --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 1e-4 "
    "--lr-scheduler inverse_sqrt --lr 6e-3 --warmup-updates 400 --max-tokens 1024 "
    "--save-interval-updates 150 --keep-interval-updates 5 --no-epoch-checkpoints "
    "--log-format json --log-interval 100"
)
KINDS = {"sentencepiece": "SentencePiece", "subword_nmt": "Moses, BPE"}
OPTIONS = {
    "name": (..., "name of the corpus, for the report"),
    "out": (..., "folder for data, models and translations"),
    **dict.fromkeys(("train", "valid", "test"), ([str], "two files of raw text")),
    "merges": (int, "merges of BPE (default: SentencePiece's number of subwords)"),
    "updates": (1500, "updates of each training"),
    "seeds": ([1, 2, 3], "seeds"),
}


def run(command, done):
    """Run a command unless the file ``done`` exists; stop at its failure."""
    if done.exists():
        return
    done.parent.mkdir(parents=True, exist_ok=True)
    print("+", shlex.join(map(str, command)), file=sys.stderr, flush=True)
    with open(done.parent / "log.txt", "a") as log:
        subprocess.run(list(map(str, command)), stdout=log, stderr=subprocess.STDOUT, check=True)


def measure(arguments):
    """Yield the score of SentencePiece beside BPE's, with its significance."""
    out, outputs, sizes = Path(arguments.out), {}, {}
    source, target = (Path(name).suffix[1:] for name in arguments.test)
    for kind in KINDS:
        data = out / kind
        files = [["--" + s, *getattr(arguments, s)] for s in ("train", "valid", "test")]
        merges = ["--bpe-operations", arguments.merges or sizes.get("sentencepiece")]
        learned = ["--subwords", kind, *(merges if kind == "subword_nmt" else [])]
        command = ["posattn", "prepare", "translation", "own", *sum(files, []), *learned]
        run([*command, "--dest", data], data / "preparation.json")
        sizes[kind] = len((data / f"dict.{target}.txt").read_text().splitlines())
        outputs[kind] = [train(arguments, data, source, target, s) for s in arguments.seeds]
    command = ["posattn", "score", "bleu", "--json", "--references", arguments.test[1]]
    command += ["--text", "running", "--hypotheses", *outputs["sentencepiece"]]
    command += ["--baseline", *outputs["subword_nmt"]]
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, check=True)
    row = {"name": arguments.name, "subwords": sizes, "updates": arguments.updates}
    yield {**row, "score": json.loads(done.stdout)}


def train(arguments, data, source, target, seed):
    """Train a model and return the file of its translations."""
    folder = data / f"seed{seed}"
    average, output = folder / "average.pt", folder / f"test.{target}"
    command = ["fairseq-train", data, "--user-dir", PLUGIN, "--save-dir", folder, "--seed", seed]
    command += ["--source-lang", source, "--target-lang", target, *shlex.split(TRAINING)]
    run([*command, "--max-update", arguments.updates], average)
    inputs = ["--inputs", folder, "--num-update-checkpoints", 5]
    run(["posattn", "average", *inputs, "--output", average], average)
    files = ["--data", data, "--input", arguments.test[0], "--output", output]
    run(["posattn", "translate", average, *files], output)
    return output


def cells(row, report):
    score = row["score"]
    table = {"corpus": row["name"]}
    for metric, name in (("bleu", "BLEU"), ("chrf2", "chrF2")):
        test = score["significance"][metric]
        both = f"{test['baseline'] + test['difference']:.2f} / {test['baseline']:.2f}"
        table[name] = f"{both}, {test['difference']:+.2f} (p = {test['p']:.2g})"
    sizes = " / ".join(f"{size:,}" for size in row["subwords"].values())
    return {**table, "runs": score["runs"], "subwords": sizes, "updates": row["updates"]}


BENCHMARKS = {"": machine.Benchmark(OPTIONS, measure, machine.one_table(cells))}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
