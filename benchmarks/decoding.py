"""Time of translating: the plugin's models beside fairseq's Transformer and CTranslate2.

    python benchmarks/decoding.py
    python benchmarks/decoding.py --sentences 128 --device cuda --dtype float16
    python benchmarks/decoding.py --int8
    python benchmarks/decoding.py text --checkpoint CHECKPOINT --data data-bin/multi30k \\
        --input test_2016_flickr.de

Models with random weights translate random sentences into exactly --target-length tokens with beam
search. All take turns, batch by batch: ours, a Transformer of the plugin (`san` sublayers) of the
stock model's size, fairseq's, and on a CPU CTranslate2 (`pip install ctranslate2`), in float32 or,
with --int8, in int8.

text: posattn translate reads plain text, fairseq-generate the binarized split. Each round runs
both, from loading the model to the last line written. The report counts sentences with identical
translations. Memory is the peak of a separate process that translates many short lines.
"""

import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from itertools import cycle, islice, zip_longest
from pathlib import Path

import machine
import torch
import translation_pairs as pairs
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.sequence_generator import SequenceGenerator
from fairseq_cli import generate

from fairseq_posattn.inference.commands import translate
from fairseq_posattn.inference.trained_model import load
from fairseq_posattn.inference.translation.search import ForcedSearch
from fairseq_posattn.model.projections import quantize_linear_layers

# --- Searches ----------------------------------------------------------------------------------

COMPARED = [("plain", "stock"), ("ours", "ctranslate2"), ("plain", "ctranslate2")]


def measure_searches(name, words, shape, arguments):
    """Yield the times of a pair's models."""
    batch = pairs.random_batch(words, shape, arguments.device)
    ours, stock = pairs.build_pair(name, words, arguments)
    plain = pairs.build_plain(name, stock, words, arguments)
    searches = {
        "ours": search(ForcedSearch, ours, words, batch, shape, arguments),
        "plain": search(ForcedSearch, plain, words, batch, shape, arguments),
        "stock": search(SequenceGenerator, stock, words, batch, shape, arguments),
    }
    if arguments.device == "cpu" and importlib.util.find_spec("ctranslate2"):
        kind = "int8" if arguments.int8 else "float32"
        searches["ctranslate2"] = search_by_ctranslate2(
            stock, words, batch, shape, arguments.beam, kind
        )
    if arguments.int8:
        quantize_linear_layers(ours)
        quantize_linear_layers(plain)
    rounds = arguments.batches, arguments.warmup, arguments.device
    seconds = machine.take_turns(name, list(searches.values()), *rounds)
    times = dict(zip(searches, seconds, strict=True))
    yield {
        **{"beam": arguments.beam, "int8": arguments.int8, "batches": arguments.batches},
        "milliseconds": {
            model: round(1e3 * statistics.median(each), 1) for model, each in times.items()
        },
        **machine.compare(times["ours"], times["stock"]),
        **{f"{a}_over_{b}": machine.compare(times[a], times[b]) for a, b in COMPARED if b in times},
    }


def search(kind, model, words, batch, shape, arguments):
    """Return a function that translates the batch by fairseq's search or the plugin's."""
    model.eval().make_generation_fast_(need_attn=False)
    limits = {"max_len_b": shape["target_length"], "min_len": shape["target_length"]}
    generator = kind([model], words, beam_size=arguments.beam, **limits)
    sample = {
        "id": torch.arange(len(batch.source)),
        "net_input": {"src_tokens": batch.source, "src_lengths": batch.lengths},
    }
    return lambda: generator.generate([model], sample)


@torch.no_grad()
def search_by_ctranslate2(stock, words, batch, shape, beam, kind):
    """Return a function that translates the batch by CTranslate2 with the stock model's weights."""
    os.environ["CT2_VERBOSE"] = "-1"
    import ctranslate2
    from ctranslate2.converters import fairseq as converter

    spec = converter._get_model_spec(stock.args)
    converter.set_transformer_encoder(spec.encoder, stock.encoder)
    converter.set_transformer_decoder(spec.decoder, stock.decoder)
    spec.register_source_vocabulary(converter._get_vocab(words))
    spec.register_target_vocabulary(converter._get_vocab(words))
    spec.config.decoder_start_token = spec.config.eos_token
    spec.validate()
    spec.optimize(quantization=kind)
    with tempfile.TemporaryDirectory() as folder:
        spec.save(folder)
        translator = ctranslate2.Translator(
            folder, compute_type=kind, inter_threads=1, intra_threads=torch.get_num_threads()
        )
    sentences = [[words[token] for token in row if token != words.pad()] for row in batch.source]
    length = shape["target_length"]
    return lambda: translator.translate_batch(
        sentences, beam_size=beam, min_decoding_length=length, max_decoding_length=length
    )


def cells_of_searches(pair, report):
    """Return a table's row."""
    columns = {
        "time, ours / fairseq's (rounds)": pair,
        "plain Transformer, ours / fairseq's": pair.get("plain_over_stock"),
        "ours / CTranslate2's": pair.get("ours_over_ctranslate2"),
        "plain Transformer, ours / CTranslate2's": pair.get("plain_over_ctranslate2"),
    }
    ratios = {
        column: machine.ratio({**pair, **ratio}, "batches")
        for column, ratio in columns.items()
        if ratio
    }
    return pairs.first_cells(pair, report) | ratios


# --- Plain text --------------------------------------------------------------------------------

SHORT = 3  # words of a line where memory is measured


def translate_text(arguments, decoding):
    """Translate by ``posattn translate``."""
    words = [arguments.checkpoint, "--data", arguments.data, "--input", arguments.input, "--cpu"]
    if translate.main([*words, "--json", "--attention", "none", *decoding]):
        raise SystemExit("posattn translate failed")


def generate_text(arguments, decoding):
    """Translate by ``fairseq-generate``."""
    words = [arguments.data, "--path", arguments.checkpoint, "--gen-subset", arguments.split]
    words += ["--cpu", "--no-progress-bar", "--num-workers", "0", *decoding]
    args = options.parse_args_and_arch(options.get_generation_parser(), words)
    generate.main(convert_namespace_to_omegaconf(args))


def subwords_of(lines, fairseqs_lines):
    """Return the best hypotheses of both outputs, in the order of the sentences."""
    sentences = [json.loads(line)["hypotheses"] for line in lines]
    ours = [hypotheses[0]["pieces"] if hypotheses else "" for hypotheses in sentences]
    rows = [line[2:].split("\t") for line in fairseqs_lines if line.startswith("H-")]
    return ours, [pieces for _, _, pieces in sorted(rows, key=lambda row: int(row[0]))]


def measure_text(arguments):
    """Yield one row: time, identical translations, memory."""
    torch.set_num_threads(arguments.threads)
    sizes = {"beam": arguments.beam, "batch-size": arguments.batch_size, "max-tokens": 8000}
    decoding = [word for name, size in sizes.items() for word in (f"--{name}", str(size))]
    outputs = {}

    def writing(command):
        def run():
            with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
                with contextlib.redirect_stdout(file):
                    command(arguments, decoding)
                file.seek(0)
                outputs[command] = file.read().splitlines()

        return run

    commands = [translate_text, generate_text]
    rounds = arguments.rounds, arguments.warmup, "cpu"
    seconds = machine.take_turns("text", list(map(writing, commands)), *rounds)
    both = list(zip_longest(*subwords_of(*(outputs[command] for command in commands))))
    trained = load(arguments.checkpoint, arguments.data)
    yield {
        "arch": trained.config._name,
        "parameters": pairs.parameters(trained.model),
        **{"sentences": len(both), "alike": sum(one == other for one, other in both)},
        **{"beam": arguments.beam, "rounds": arguments.rounds},
        "seconds": round(statistics.median(seconds[0]), 3),
        "fairseq_seconds": round(statistics.median(seconds[1]), 3),
        **machine.compare(*seconds),
        "megabytes": {str(count): memory(arguments, count) for count in arguments.lines},
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


def cells_of_text(row, report):
    """Return the table's row."""
    return {
        "model": f"`{row['arch']}`, {row['parameters'] / 1e6:.2f}M parameters",
        "sentences": f"{row['sentences']:,}",
        "identical translations": f"{row['alike']:,}",
        "beam": row["beam"],
        "seconds": f"{row['seconds']:.1f}",
        "fairseq-generate": f"{row['fairseq_seconds']:.1f}",
        "ratio (rounds)": machine.ratio(row, "rounds"),
        **{f"{int(n):,} lines": f"{most:.0f} MB" for n, most in row["megabytes"].items()},
    }


BEAM = (5, "hypotheses per sentence")
BENCHMARKS = {
    "": pairs.benchmark(
        measure_searches,
        machine.one_table(cells_of_searches),
        {
            **pairs.rounds(7, 1, "batches"),
            **machine.DEVICE,
            "beam": BEAM,
            "int8": (False, "int8, except for fairseq's model"),
        },
    ),
    "text": machine.Benchmark(
        {
            "checkpoint": (..., "translation model"),
            "data": (..., "folder of its binarized data"),
            "input": (..., "file of the plain text of the split"),
            "split": ("test", "split of the data"),
            "beam": BEAM,
            "batch_size": (128, "sentences in a batch"),
            "lines": ([20_000, 200_000], "numbers of lines to measure memory with"),
            "threads": (1, "threads of PyTorch"),
            **pairs.rounds(5, 1, "rounds"),
        },
        measure_text,
        machine.one_table(cells_of_text),
    ),
}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
