"""Predicted cost of WMT14 big on 8, 64 and 512 GPUs; the prediction is checked on this machine.

    python benchmarks/scale.py --json benchmarks/results/scale.json

A batch takes its floating-point operations at the matmul rate plus its memory traffic at the memory
rate, or the host's launch time if that is longer. An update takes its batches, the optimizer step,
and the part of the all-reduce that the last backward pass does not hide. The same sum is compared
with an update on this CPU, whose rates are measured. No GPU is used: its rates are inputs.
"""

import math
import os
from typing import NamedTuple

import machine
import torch
import torch.nn.functional as F
import translation_pairs as pairs
from torch.utils.flop_counter import FlopCounterMode

os.environ["POSATTN_LINEAR"] = "torch"  # the FLOP counter does not know oneDNN's
DATASHEET = "vendor's data sheet of the H200 (SXM)"
SYSTEM = "one 400 Gb/s adapter a GPU, as in the vendor's systems of eight"
ASSUMED = "assumption"
# name: value, unit, source. Change these for another cluster.
INPUTS = {
    "matrix_rate": (989e12, "FLOP/s of dense float16 matmuls", DATASHEET),
    "matrix_share": (0.5, "of that rate achieved", ASSUMED),
    "memory_rate": (4.8e12, "bytes/s", DATASHEET),
    "memory_share": (0.7, "of that rate achieved", ASSUMED),
    "host_seconds": (0.014, "of Python a batch: 1,400 launches of 10 microseconds", ASSUMED),
    "within_node": (450e9, "bytes/s each way between GPUs of a node", DATASHEET),
    "between_nodes": (50e9, "bytes/s each way between nodes, a GPU", SYSTEM),
    "network_share": (0.8, "of those rates achieved", ASSUMED),
    "latency": (1e-5, "seconds of each of the 2 log2 N steps of the all-reduce", ASSUMED),
    "gpus_per_node": (8, "", SYSTEM),
    "tokens_per_update": (4096 * 128, "on each side, as published (MANs, WMT14 big)", "recipe"),
    "words_per_sentence": (32, "on each side, padding included", ASSUMED),
    "vocabulary": (37000, "subwords, joined dictionary", "recipe"),
}
ARCHITECTURES = {
    "dman_wmt_en_de_big": ("dman_wmt_en_de_big", ""),
    # fairseq's cannot be built on the meta device.
    "transformer_wmt_en_de_big": ("posattn_transformer", f"{pairs.DROPOUTS} {pairs.BIG_SIZES}"),
}
# Bytes a parameter: with --fp16 itself and its gradient in float16 and again in float32, two
# moments of Adam, and DistributedDataParallel's copy of the gradient.
STATE = {"float16": 2 + 2 + 4 + 4 + 8 + 2, "float32": 4 + 4 + 8 + 4}
# What an optimizer step reads and writes of these.
STEP = {"float16": 2 * (2 + 2 + 4 + 4 + 8), "float32": 28}
BYTES = {"float16": 2, "float32": 4}
PASSES = 4  # a saved activation is written and read, and so is its gradient
NOTE = (
    "`{pair}`, {sentences} sentences of up to {source_length} and {target_length} tokens; "
    "{device}, {threads} thread, {dtype}, PyTorch {torch}, {date}."
)


class Work(NamedTuple):
    parameters: int
    operations: float  # floating-point operations, forward and backward
    activations: float  # bytes saved for the backward pass


class Rates(NamedTuple):
    """Rates of a device and its network."""

    matrix: float  # FLOP/s
    memory: float  # bytes/s, as of the network
    network: float
    latency: float  # seconds of a step of the all-reduce
    host: float  # seconds to launch a batch; 0 on a CPU
    overlap: float  # share of the computation that hides an all-reduce


def predict(work: Work, batches: int, processes: int, dtype: str, rates: Rates) -> dict:
    """Return seconds and bytes of an update of so many batches per process."""
    device = work.operations / rates.matrix + PASSES * work.activations / rates.memory
    batch = max(device, rates.host)
    step = work.parameters * STEP[dtype] / rates.memory
    # In a ring each process sends 2 (N-1) / N of the gradients' bytes.
    sent = work.parameters * BYTES[dtype] * 2 * (processes - 1) / processes
    network = 2 * math.ceil(math.log2(processes)) * rates.latency + sent / rates.network
    exposed = max(0.0, network - rates.overlap * batch)  # the last batch's backward pass
    return {
        **{"device_seconds": batches * device, "batches_seconds": batches * batch},
        **{"step_seconds": step, "network_seconds": network, "exposed_seconds": exposed},
        **{"update_seconds": batches * batch + step + exposed, "network_bytes": sent},
        "memory_bytes": work.parameters * STATE[dtype] + work.activations,
    }


def count(model, batch, padding) -> Work:
    """Return the work of an update; tensors may be on the meta device."""
    parameters = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    saved = {}

    def save(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            saved[storage._cdata] = storage.nbytes()
        return tensor

    with FlopCounterMode(display=False) as counter:
        with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
            loss = pairs.loss_of(model.train(), batch, padding)
        loss.backward()
    return Work(pairs.parameters(model), counter.get_total_flops(), sum(saved.values()))


def on_gpus(inputs: dict):
    """Yield rows for WMT14 big: the published update, and a full batch on each of 512 GPUs."""
    words = pairs.dictionary(inputs["vocabulary"])
    for arch, (built, flags) in ARCHITECTURES.items():
        flags = f"{pairs.EMBEDDINGS} {flags}"
        with torch.device("meta"):
            model = pairs.build(built, flags, words, "meta", "float16")
        for gpus, tokens in ((8, 4096), (64, 4096), (512, 1024), (512, 4096)):
            length = inputs["words_per_sentence"]
            shape = dict(zip(pairs.SIZES, (tokens // length, length, length), strict=True))
            work = count(model, pairs.random_batch(words, shape, "meta"), words.pad())
            batches = max(1, inputs["tokens_per_update"] // (gpus * tokens))
            nodes = "between_nodes" if gpus > inputs["gpus_per_node"] else "within_node"
            rates = Rates(
                matrix=inputs["matrix_rate"] * inputs["matrix_share"],
                memory=inputs["memory_rate"] * inputs["memory_share"],
                network=inputs[nodes] * inputs["network_share"],
                **{"latency": inputs["latency"], "host": inputs["host_seconds"]},
                overlap=2 / 3,  # the backward pass
            )
            row = {"arch": arch, "gpus": gpus, "tokens": tokens, "batches": batches}
            row |= work._asdict() | predict(work, batches, gpus, "float16", rates)
            yield row | {"words_per_second": gpus * tokens * batches / row["update_seconds"]}


def measure(arguments):
    """Yield rows of GPUs, and of an update here, measured and predicted from measured rates."""
    yield from on_gpus(vars(arguments))
    words = pairs.dictionary(pairs.PAIRS[arguments.pair].words)
    batch = pairs.random_batch(words, pairs.batch_shape(arguments.pair, arguments), "cpu")
    model = pairs.build_pair(arguments.pair, words, arguments)[0].train()
    x, weight, large = torch.randn(1024, 512), torch.randn(512, 512), torch.zeros(2**25)
    update = pairs.trainer(model, lambda model: pairs.loss_of(model, batch, words.pad()))
    works = {"matmul": lambda: F.linear(x, weight), "move": lambda: large.add_(1.0), "all": update}
    times = machine.take_turns("here", works, arguments.rounds, 1, "cpu").values()
    product, moved, measured = (machine.milliseconds(each, digits=6) / 1000 for each in times)
    matrix, memory = 2 * x.numel() * len(weight) / product, 2 * large.nbytes / moved
    rates = Rates(matrix, memory, math.inf, latency=0.0, host=0.0, overlap=0.0)
    work = count(model, batch, words.pad())
    row = {"measured_seconds": measured, "matrix": matrix, "memory": memory}
    yield row | work._asdict() | predict(work, 1, 1, "float32", rates)


def tables(report):
    """Return the report's Markdown: predictions for GPUs, the check here, and the inputs."""
    gpus = [
        {
            **{"architecture": f"`{row['arch']}`", "GPUs": row["gpus"]},
            "batches x tokens, a GPU": f"{row['batches']} x {row['tokens']}",
            "memory, GB": f"{row['memory_bytes'] / 1e9:.1f}",
            "sent by a GPU, GB": f"{row['network_bytes'] / 1e9:.2f}",
            "device, ms": f"{1e3 * row['device_seconds']:.0f}",
            "with the host, ms": f"{1e3 * row['batches_seconds']:.0f}",
            "optimizer, ms": f"{1e3 * row['step_seconds']:.1f}",
            "network, ms": f"{1e3 * row['network_seconds']:.1f}",
            "exposed network, ms": f"{1e3 * row['exposed_seconds']:.1f}",
            "update, ms": f"{1e3 * row['update_seconds']:.0f}",
            "tokens/s": f"{row['words_per_second'] / 1e6:.2f}M",
        }
        for row in report["rows"]
        if "gpus" in row
    ]
    checked = [
        {
            "matmul, GFLOP/s": f"{row['matrix'] / 1e9:.0f}",
            "memory, GB/s": f"{row['memory'] / 1e9:.1f}",
            "predicted, s": f"{row['update_seconds']:.2f}",
            "measured, s": f"{row['measured_seconds']:.2f}",
            "measured / predicted": f"{row['measured_seconds'] / row['update_seconds']:.2f}",
        }
        for row in report["rows"]
        if "measured_seconds" in row
    ]
    inputs = [
        {"input": f"`--{name.replace('_', '-')}`", **row, "value": f"{row['value']:g}"}
        for name, row in report["inputs"].items()
    ]
    here = f"{machine.table(checked)}\n\n{NOTE.format(**report)}"
    return {"": machine.table(gpus), "here": here, "inputs": machine.table(inputs)}


def describe(arguments):
    inputs = {
        name: {"value": getattr(arguments, name), "unit": unit, "source": source}
        for name, (_, unit, source) in INPUTS.items()
    }
    shape = pairs.batch_shape(arguments.pair, arguments)
    return {**machine.describe(arguments), "pair": arguments.pair, **shape, "inputs": inputs}


OPTIONS = {
    "pair": ("dman_iwslt_de_en", "pair to train on this machine", list(pairs.PAIRS)),
    **pairs.BATCH,
    **{"device": ("cpu", "device", ["cpu"]), "dtype": ("float32", "precision", ["float32"])},
    "rounds": (9, "counted updates and trials"),
    **{name: (value, f"{unit}; {source}") for name, (value, unit, source) in INPUTS.items()},
}
BENCHMARKS = {"": machine.Benchmark(OPTIONS, measure, tables, describe=describe)}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
