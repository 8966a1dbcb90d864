"""What WMT14 big costs on 8, 64 and 512 GPUs, by a small model; the model held against real runs.

    python benchmarks/scale.py --json benchmarks/results/scale.json
    python scripts/fill_numbers.py        # writes docs/scale.md

A batch takes its floating-point operations at the rate of matrix products and what it moves through
memory at the memory's rate, or the host's time to launch it if that is more; an update takes its
batches, the optimiser's step, and what of the gradients' all-reduce does not hide behind the last
backward pass. Operations and activations are counted by PyTorch on tensors without contents. The
same sum is held against training by one and by two processes here, on the CPU, whose rates are
measured first. No GPU is used: its rates are the assumptions below.
"""

import json
import math
import os
import statistics
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import machine
import torch
import torch.distributed as dist
import torch.nn.functional as F
import translation_pairs as pairs
from torch.nn.parallel import DistributedDataParallel
from torch.utils.flop_counter import FlopCounterMode

os.environ["POSATTN_LINEAR"] = "torch"  # of whose products the counter knows
DATASHEET = "vendor's data sheet of the H200 (SXM)"
SYSTEM = "one 400 Gb/s adapter a GPU, as in the vendor's systems of eight"
ASSUMED = "assumption"
# name: value, unit, source. What a user of another cluster changes.
INPUTS = {
    "matrix_rate": (989e12, "FLOP/s of dense float16 products", DATASHEET),
    "matrix_share": (0.5, "of that rate reached", ASSUMED),
    "memory_rate": (4.8e12, "bytes/s", DATASHEET),
    "memory_share": (0.7, "of that rate reached", ASSUMED),
    "host_seconds": (0.014, "of Python a batch: 1,400 launches of 10 microseconds", ASSUMED),
    "within_node": (450e9, "bytes/s each way between GPUs of a node", DATASHEET),
    "between_nodes": (50e9, "bytes/s each way between nodes, a GPU", SYSTEM),
    "network_share": (0.8, "of those rates reached", ASSUMED),
    "latency": (1e-5, "seconds of a step of the all-reduce, of which there are 2 log2 N", ASSUMED),
    "gpus_per_node": (8, "", SYSTEM),
    "tokens_per_update": (4096 * 128, "on each side, as published (MANs, WMT14 big)", "recipe"),
    "words_per_sentence": (32, "on each side, padding included", ASSUMED),
    "vocabulary": (37000, "joint byte pairs", "recipe"),
}
# The sizes of fairseq's transformer_wmt_en_de_big, which itself cannot be built without contents.
BIG = " ".join(
    f"--{side}-embed-dim 1024 --{side}-ffn-embed-dim 4096 --{side}-attention-heads 16"
    for side in ("encoder", "decoder")
)
ARCHITECTURES = {
    "dman_wmt_en_de_big": ("dman_wmt_en_de_big", ""),
    "transformer_wmt_en_de_big": ("posattn_transformer", f"{pairs.DROPOUTS} {BIG}"),
}
# Bytes a parameter. With --fp16 fairseq keeps it and its gradient in float16, both again in
# float32, two moments of Adam, and DistributedDataParallel's copy of the gradient.
STATE = {"float16": 2 + 2 + 4 + 4 + 8 + 2, "float32": 4 + 4 + 8 + 4}
# What an optimiser step reads and writes of these.
STEP = {"float16": 2 * (2 + 2 + 4 + 4 + 8), "float32": 28}
BYTES = {"float16": 2, "float32": 4}
# A saved activation is written and read, and so is its gradient.
PASSES = 4


@dataclass(frozen=True)
class Work:
    """What an update of one batch is: counted, not measured.

    Attributes:
        parameters: of the model.
        operations: floating-point operations of forward and backward pass.
        activations: bytes kept for the backward pass.
    """

    parameters: int
    operations: float
    activations: float


@dataclass(frozen=True)
class Rates:
    """What a device and its network reach: FLOP/s, bytes/s, bytes/s, seconds of a step.

    Attributes:
        host: seconds in which a batch is launched; none where host and device are one.
        overlap: share of the computation behind which an all-reduce hides: the backward pass is
            two thirds; none where the processors that compute also carry it.
    """

    matrix: float
    memory: float
    network: float
    latency: float
    host: float
    overlap: float


def all_reduce_seconds(size: float, processes: int, rates: Rates) -> float:
    """A ring: each process sends and receives ``2 (N-1) / N`` of the bytes."""
    if processes == 1:
        return 0.0
    steps = 2 * math.ceil(math.log2(processes))
    return steps * rates.latency + size * 2 * (processes - 1) / processes / rates.network


def predict(work: Work, batches: int, processes: int, dtype: str, rates: Rates) -> dict:
    """Seconds of an update of so many batches a process, and what they are made of."""
    device = work.operations / rates.matrix + PASSES * work.activations / rates.memory
    batch = max(device, rates.host)
    step = work.parameters * STEP[dtype] / rates.memory
    size = work.parameters * BYTES[dtype]
    network = all_reduce_seconds(size, processes, rates)
    exposed = max(0.0, network - rates.overlap * batch)  # the last batch's backward pass
    return {
        "device_seconds": batches * device,
        "batches_seconds": batches * batch,
        "step_seconds": step,
        "network_seconds": network,
        "exposed_seconds": exposed,
        "update_seconds": batches * batch + step + exposed,
        "network_bytes": size * 2 * (processes - 1) / processes,
        "memory_bytes": work.parameters * STATE[dtype] + work.activations,
    }


def loss_of(model, batch, padding):
    """Label-smoothed, from float32 scores of the whole vocabulary, as fairseq's."""
    scores = model(batch.source, batch.lengths, batch.previous)[0]
    target = batch.target.flatten()
    return F.cross_entropy(
        scores.flatten(0, 1).float(), target, ignore_index=padding, label_smoothing=0.1
    )


def count(model, batch, padding) -> Work:
    """What an update of the batch is; the tensors may be without contents."""
    parameters = {parameter.untyped_storage()._cdata for parameter in model.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in parameters:
            kept[storage._cdata] = storage.nbytes()
        return tensor

    with FlopCounterMode(display=False) as counter:
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = loss_of(model.train(), batch, padding)
        loss.backward()
    return Work(pairs.parameters(model), counter.get_total_flops(), sum(kept.values()))


def on_gpus(inputs: dict) -> list[dict]:
    """WMT14 big: the published update shared out, and beyond it a full batch on each GPU."""
    words = pairs.dictionary(inputs["vocabulary"])
    rows = []
    for arch, (built, flags) in ARCHITECTURES.items():
        flags = f"{pairs.EMBEDDINGS} {flags}"
        with torch.device("meta"):  # sizes and types, no contents
            model = pairs.build(built, flags, words, "meta", "float16")
        for gpus, tokens in ((8, 4096), (64, 4096), (512, 1024), (512, 4096)):
            length = inputs["words_per_sentence"]
            sizes = {"sentences": tokens // length}
            sizes |= {"source_length": length, "target_length": length}
            batch = pairs.random_batch(words, sizes, "meta")
            work = count(model, batch, words.pad())
            batches = max(1, inputs["tokens_per_update"] // (gpus * tokens))
            across = gpus > inputs["gpus_per_node"]
            network = inputs["between_nodes" if across else "within_node"]
            rates = Rates(
                inputs["matrix_rate"] * inputs["matrix_share"],
                inputs["memory_rate"] * inputs["memory_share"],
                network * inputs["network_share"],
                inputs["latency"],
                inputs["host_seconds"],
                overlap=2 / 3,
            )
            row = {"arch": arch, "gpus": gpus, "tokens": tokens, "batches": batches}
            row |= asdict(work) | predict(work, batches, gpus, "float16", rates)
            row["words_per_second"] = gpus * tokens * batches / row["update_seconds"]
            rows.append(row)
    return rows


def median_seconds(function, rounds: int) -> float:
    """Of the processor, all threads of the process together; the first call does not count.

    The clock would tell what else the machine does. Where nothing hides behind anything, the time
    of the processor is that of a machine left alone.
    """
    times = []
    for _ in range(rounds + 1):
        if dist.is_initialized():
            dist.barrier()
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return statistics.median(times[1:])


def measured_rates(rounds: int) -> Rates:
    """Of this machine, with as many processes at work as there are."""
    x, weight = torch.randn(1024, 512), torch.randn(512, 512)
    with torch.no_grad():
        product = median_seconds(lambda: F.linear(x, weight), rounds)
        large = torch.zeros(2**25)
        moved = median_seconds(lambda: large.add_(1.0), rounds)
    network, latency = math.inf, 0.0
    if dist.get_world_size() > 1:
        few, many = torch.zeros(2**10), torch.zeros(2**24)
        steps = 2 * math.ceil(math.log2(dist.get_world_size()))
        latency = median_seconds(lambda: dist.all_reduce(few), rounds) / steps
        seconds = median_seconds(lambda: dist.all_reduce(many), rounds) - steps * latency
        share = 2 * (dist.get_world_size() - 1) / dist.get_world_size()
        network = share * many.nbytes / max(seconds, 1e-9)
    return Rates(
        2 * x.numel() * len(weight) / product,
        2 * large.nbytes / moved,
        network,
        latency,
        host=0.0,
        overlap=0.0,
    )


def train_here(rank: int, processes: int, rendezvous: str, arguments, found: str) -> None:
    """Measure an update by so many processes, and predict it from the rates measured beside it."""
    dist.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=processes
    )
    torch.set_num_threads(1)
    words = pairs.dictionary(pairs.PAIRS[arguments.pair].words)
    batch = pairs.random_batch(words, pairs.batch_shape(arguments.pair, arguments), "cpu")
    model = pairs.build_pair(arguments.pair, words, arguments)[0].train()
    work = count(model, batch, words.pad())
    rates = measured_rates(arguments.rounds)
    trained = DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-5, eps=1e-4)

    def update():
        optimizer.zero_grad()
        loss_of(trained, batch, words.pad()).backward()
        optimizer.step()

    seconds = median_seconds(update, arguments.rounds)
    if rank == 0:
        row = {"processes": processes, "measured_seconds": seconds} | asdict(rates) | asdict(work)
        row |= predict(work, 1, processes, "float32", rates)
        row["network"] = rates.network if processes > 1 else None
        Path(found).write_text(json.dumps(row), encoding="utf-8")
    dist.destroy_process_group()


def here(arguments) -> list[dict]:
    """An update by one and by two processes of this machine, measured and predicted."""
    rows = []
    for processes in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            found = f"{folder}/row.json"
            torch.multiprocessing.spawn(
                train_here, (processes, f"{folder}/met", arguments, found), nprocs=processes
            )
            rows.append(json.loads(Path(found).read_text(encoding="utf-8")))
    return rows


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument(
        "--pair",
        choices=pairs.PAIRS,
        default="dman_iwslt_de_en",
        help="what is trained here",
    )
    for size in ("sentences", "source-length", "target-length"):
        parser.add_argument(f"--{size}", type=int, help="of its batch (default: the pair's own)")
    parser.add_argument("--rounds", type=int, default=9, help="counted updates and trials")
    for name, (value, unit, source) in INPUTS.items():
        described = f"{unit + '; ' if unit else ''}{source} (default: %(default)g)"
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=type(value), default=value, help=described
        )
    parser.set_defaults(device="cpu", dtype="float32")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    inputs = {name: getattr(arguments, name) for name in INPUTS}
    report = machine.describe("cpu", "float32") | {
        "pair": arguments.pair,
        **pairs.batch_shape(arguments.pair, arguments),
        "inputs": {
            name: {"value": inputs[name], "unit": unit, "source": source}
            for name, (_, unit, source) in INPUTS.items()
        },
        "gpus": on_gpus(inputs),
        "here": here(arguments),
    }
    for row in report["here"]:
        print(
            "{processes} processes here: {measured_seconds:.3f} s an update, "
            "{update_seconds:.3f} predicted".format(**row)
        )
    for row in report["gpus"]:
        print(
            "{arch} on {gpus} GPUs, {batches} x {tokens} tokens: {update_seconds:.3f} s, "
            "{words_per_second:,.0f} words/s, predicted".format(**row)
        )
    machine.keep(report, arguments.json)


if __name__ == "__main__":
    main()
