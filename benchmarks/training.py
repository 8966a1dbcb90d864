"""Time of a training update: the plugin's models beside fairseq's.

    python benchmarks/training.py
    python benchmarks/training.py switches --device cuda --json FILE

Both models of a pair have equally many layers and, within a percent, parameters. They take turns on
the same random sentences: forward pass, label-smoothed loss, backward pass and a step of Adam.
Memory is the peak of parameters, gradients, moments and two updates, for each model alone.

switches: an update of fairseq's trainer under each switch. Launches are kernels
on a GPU and PyTorch's operations on a CPU.
"""

from functools import partial

import machine
import torch
import translation_pairs as pairs
from fairseq import options
from fairseq.data.language_pair_dataset import collate
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from torch.profiler import ProfilerActivity, profile


def measure_updates(name, words, shape, arguments):
    device = arguments.device
    batch = pairs.random_batch(words, shape, device)
    loss_of = partial(pairs.loss_of, batch=batch, padding=words.pad())

    def two_updates(stock):
        model = pairs.build(*pairs.command(name, stock), words, device, arguments.dtype)
        update = pairs.trainer(model, loss_of)
        update()
        update()

    peaks = [machine.peak_bytes(partial(two_updates, stock), device) for stock in (False, True)]
    models = pairs.build_pair(name, words, arguments)
    updates = {model: pairs.trainer(model, loss_of) for model in models}
    rounds = arguments.updates, arguments.warmup, device
    times = machine.take_turns(name, updates, *rounds).values()
    yield {
        "updates": arguments.updates,
        **both("parameters", map(pairs.parameters, models)),
        **both("peak_bytes", peaks),
        **both("milliseconds", map(machine.milliseconds, times)),
        **machine.compare(*times),
    }


def both(key, values):
    return dict(zip((key, f"stock_{key}"), values, strict=True))


def cells_of_updates(pair, report):
    return {
        **pairs.first_cells(pair, report),
        "parameters": f"{pair['parameters'] / 1e6:.2f}M, {pair['stock_parameters'] / 1e6:.2f}M",
        "time, ours / fairseq's (rounds)": machine.ratio(pair, "updates"),
        "peak MB": f"{pair['peak_bytes'] / 1e6:,.0f}, {pair['stock_peak_bytes'] / 1e6:,.0f}",
    }


TRAINING = "--no-save --optimizer adam --adam-betas (0.9,0.98) --lr 1e-5 --label-smoothing 0.1"
OLD_ADAM, LOSS = "--use-old-adam", "--criterion label_smoothed_cross_entropy"
FUSED_LOSS, STOCK = f"{LOSS}_fused", "fairseq's"
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel")


def count_launches(events, device):
    """Return the number of kernels or, on a CPU, of outermost operations."""
    if device == "cuda":
        return sum(event.name.startswith(LAUNCHES) for event in events)
    parents = [event.cpu_parent for event in events if event.name.startswith("aten::")]
    return sum(parent is None or not parent.name.startswith("aten::") for parent in parents)


def sample_of(words, shape):
    """Return a batch of fairseq's trainer."""
    batch, pad = pairs.random_batch(words, shape, "cpu"), words.pad()
    rows = [
        {"id": number, "source": source[source != pad], "target": target[target != pad]}
        for number, (source, target) in enumerate(zip(batch.source, batch.target, strict=True))
    ]
    return collate(rows, pad, words.eos(), left_pad_source=True)


def contestants(device: str) -> dict[str, str]:
    """Return the flags of a training beyond those of all, by its name."""
    half, both = "--fp16" if device == "cuda" else "--bf16", "both, half precision"
    flags = {
        STOCK: f"{OLD_ADAM} {LOSS}",
        "ours": f"{OLD_ADAM} {LOSS}",
        "fused Adam": LOSS,
        "fused loss": f"{OLD_ADAM} {FUSED_LOSS}",
        "both": FUSED_LOSS,
        f"{STOCK}, half precision": f"{OLD_ADAM} {LOSS} {half}",
        both: f"{FUSED_LOSS} {half}",
    }
    if device == "cuda":
        flags[f"{both}, no kernels"] = f"{flags[both]} --attention-impl reference"
        flags[f"{both}, CUDA graphs"] = f"{flags[both]} --cuda-graphs"
    return flags


def build_trainer(flags: str, stock: bool, pair: str, words, device: str) -> Trainer:
    """Return the trainer that fairseq-train would build."""
    arch, of_model = pairs.command(pair, stock)
    command = f"data --arch {arch} {of_model} {TRAINING} {flags}{' --cpu' * (device == 'cpu')}"
    torch.manual_seed(1)
    args = options.parse_args_and_arch(options.get_training_parser(), command.split())
    cfg = convert_namespace_to_omegaconf(args)
    task = TranslationTask(cfg.task, words, words)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    return Trainer(cfg, task, model, criterion)


def measure_switches(name, words, shape, arguments):
    """Yield time and launches of each contestant."""
    device, sample = arguments.device, sample_of(words, shape)
    chosen, steps = contestants(device), {}
    for named, flags in chosen.items():
        trainer = build_trainer(flags, named.startswith(STOCK), name, words, device)
        steps[named] = partial(trainer.train_step, [sample])
    seconds = machine.take_turns(name, steps, arguments.updates, arguments.warmup, device)
    for named, times in seconds.items():
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
            steps[named]()
        events = recorded.events()
        yield {
            **{"updates": arguments.updates, "name": named, "flags": chosen[named]},
            "milliseconds": machine.milliseconds(times),
            **machine.compare(times, seconds[STOCK]),
            "launches": count_launches(events, device),
        }


def cells_of_switches(row, report):
    return {
        **{"update": row["name"], "flags": f"`{row['flags']}`", "model": f"`{row['arch']}`"},
        **{"device": report["device"], "ms": f"{row['milliseconds']:,.0f}"},
        "launches": row["launches"] and f"{row['launches']:,}",
        "time / fairseq's": machine.ratio(row),
    }


SWITCHES = {**pairs.rounds(5, 2), "device": machine.DEVICE["device"]}
UPDATES = {**pairs.rounds(15, 3), **machine.DEVICE}
BENCHMARKS = {
    "": pairs.benchmark(measure_updates, machine.one_table(cells_of_updates), UPDATES),
    "switches": pairs.benchmark(measure_switches, machine.one_table(cells_of_switches), SWITCHES),
}

if __name__ == "__main__":
    machine.main(BENCHMARKS, __doc__)
