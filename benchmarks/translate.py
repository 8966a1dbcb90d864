"""Time of posattn translate beside fairseq-generate on the same sentences, and its memory.

    python benchmarks/translate.py CHECKPOINT --data data-bin/multi30k --input test_2016_flickr.de

posattn translate reads plain text, fairseq-generate the binarised split. Each round runs both, from
loading the model to the last line written; seconds are the processor's. The report counts sentences
with identical translations. Memory is the peak of a separate process that translates many short
lines.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from itertools import cycle, islice, zip_longest
from pathlib import Path

import machine
import torch

warnings.filterwarnings("ignore")

from fairseq import options  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402
from fairseq_cli import generate  # noqa: E402

import fairseq_posattn  # noqa: E402, F401, registers
from fairseq_posattn.inference.commands import translate  # noqa: E402
from fairseq_posattn.inference.trained_model import load  # noqa: E402

SHORT = 3  # words of a line where memory is measured


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument("checkpoint", help="translation model")
    parser.add_argument("--data", required=True, metavar="FOLDER", help="its binarised data")
    parser.add_argument(
        "--input", required=True, metavar="FILE", help="the plain text of the split"
    )
    parser.add_argument("--split", default="test", help="of the data")
    parser.add_argument("--beam", type=int, default=5, help="beam size")
    parser.add_argument("--batch-size", type=int, default=128, help="sentences")
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds")
    parser.add_argument("--warmup", type=int, default=1, help="rounds before those")
    parser.add_argument(
        "--lines",
        type=int,
        nargs="*",
        default=[20_000, 200_000],
        help="numbers of lines to measure memory with",
    )
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    return parser.parse_args()


def by_fairseq(arguments):
    words = [arguments.data, "--path", arguments.checkpoint, "--gen-subset", arguments.split]
    words += ["--cpu", "--no-progress-bar", "--num-workers", "0", *decoding(arguments)]
    args = options.parse_args_and_arch(options.get_generation_parser(), words)
    generate.main(convert_namespace_to_omegaconf(args))


def by_translate(arguments):
    words = [arguments.checkpoint, "--data", arguments.data, "--input", arguments.input, "--cpu"]
    words += ["--json", "--attention", "none"]
    if translate.main([*words, *decoding(arguments)]):
        raise SystemExit("posattn translate has failed")


def decoding(arguments):
    sizes = {"beam": arguments.beam, "batch-size": arguments.batch_size, "max-tokens": 8000}
    return [word for name, size in sizes.items() for word in (f"--{name}", str(size))]


def timed(command, arguments):
    """Return the processor's seconds and the output lines."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        start = time.process_time()
        with contextlib.redirect_stdout(file):
            command(arguments)
        seconds = time.process_time() - start
        file.seek(0)
        return seconds, file.read().splitlines()


def fairseqs_subwords(lines):
    """Return the best hypotheses of fairseq-generate, in the order of the sentences."""
    rows = [line[2:].split("\t") for line in lines if line.startswith("H-")]
    return [pieces for _, _, pieces in sorted(rows, key=lambda row: int(row[0]))]


def our_subwords(lines):
    sentences = [json.loads(line)["hypotheses"] for line in lines]
    return [hypotheses[0]["pieces"] if hypotheses else "" for hypotheses in sentences]


def take_turns(arguments):
    """Return seconds of each round (ours, fairseq's), number of sentences and of identical ones."""
    taken = [], []
    for number in range(arguments.warmup + arguments.rounds):
        ours, lines = timed(by_translate, arguments)
        fairseqs, fairseqs_lines = timed(by_fairseq, arguments)
        if number >= arguments.warmup:
            taken[0].append(ours)
            taken[1].append(fairseqs)
    pairs = list(zip_longest(our_subwords(lines), fairseqs_subwords(fairseqs_lines)))
    return *taken, len(pairs), sum(one == other for one, other in pairs)


def describe(arguments):
    """Return hardware, versions and sizes of the model."""
    trained = load(arguments.checkpoint, arguments.data)
    return {
        **machine.describe("cpu", "float32"),
        "arch": trained.config._name,
        "layers": trained.config.decoder_layers,
        "features": trained.config.decoder_embed_dim,
        "parameters": sum(weight.numel() for weight in trained.model.parameters()),
        "words": len(trained.task.target_dictionary),
    }


# Read by the process itself: wait4's peak includes the memory of the parent at the fork.
MEASURED = """
import sys
from fairseq_posattn.inference.commands.translate import main
status = main(sys.argv[1:])
sys.stderr.write(open("/proc/self/status").read())
sys.exit(status)
"""


def memory(arguments, count):
    """Return the peak memory of posattn translate for so many short lines, in MB."""
    text = Path(arguments.input).read_text(encoding="utf-8").splitlines()
    short = [" ".join(line.split()[:SHORT]) for line in text]
    words = [arguments.checkpoint, "--data", arguments.data, "--cpu", "--beam", "1"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as lines:
        lines.writelines(f"{line}\n" for line in islice(cycle(short), count))
        lines.seek(0)
        finished = subprocess.run(
            [sys.executable, "-c", MEASURED, *words, "--max-len-b", str(SHORT)],
            **{"stdin": lines, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE},
            **{"text": True, "check": True},
            env={**os.environ, "OMP_NUM_THREADS": str(arguments.threads)},
        )
    return round(int(finished.stderr.split("VmHWM:")[1].split()[0]) / 1024, 1)


def tables(report):
    """Return the report's Markdown."""
    row = {
        "model": f"`{report['arch']}`, {report['parameters'] / 1e6:.2f}M parameters",
        "sentences": f"{report['sentences']:,}",
        "identical translations": f"{report['alike']:,}",
        "beam": report["beam"],
        "seconds": f"{report['seconds']:.1f}",
        "fairseq-generate": f"{report['fairseq_seconds']:.1f}",
        "ratio (rounds)": machine.ratio(report, "rounds"),
    }
    peaks = {f"{int(n):,} lines": f"{most:.0f} MB" for n, most in report["megabytes"].items()}
    return {"": machine.table([row | peaks])}


def main():
    """Measure time and memory."""
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    ours, fairseqs, sentences, alike = take_turns(arguments)
    report = {
        **describe(arguments),
        **{"sentences": sentences, "alike": alike},
        **{"beam": arguments.beam, "rounds": arguments.rounds},
        "seconds": round(statistics.median(ours), 3),
        "fairseq_seconds": round(statistics.median(fairseqs), 3),
        **machine.compare(ours, fairseqs),
        "megabytes": {str(count): memory(arguments, count) for count in arguments.lines},
    }
    machine.finish("translate", report, arguments.json, tables)


if __name__ == "__main__":
    main()
