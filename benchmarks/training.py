"""Time of a training update: the plugin's models beside fairseq's.

    python benchmarks/training.py
    python benchmarks/training.py switches --device cuda --json FILE

Both models of a pair have equally many layers and, within a percent, parameters. They take turns on
the same random sentences.

- An update is the forward pass, the label-smoothed loss, the backward pass and a step of Adam.
  Memory is the peak of parameters, gradients, moments and two updates, for each model alone.
- switches: an update of fairseq's trainer under each switch that makes it faster. Launches are
  kernels on a GPU and PyTorch's operations on a CPU; waits are synchronizations.
"""

from dataclasses import dataclass
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
    updates = [pairs.trainer(model, loss_of) for model in models]
    times = machine.take_turns(name, updates, arguments.updates, arguments.warmup, device)
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
OLD_ADAM = "--use-old-adam"
FUSED_LOSS = "--criterion label_smoothed_cross_entropy_fused"
LOSS = "--criterion label_smoothed_cross_entropy"
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel")


def events_of(work):
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        work()
    return recorded.events()


def count_launches(events, device):
    """Return the number of kernels or, on a CPU, of outermost operations."""
    if device == "cuda":
        return sum(event.name.startswith(LAUNCHES) for event in events)
    operations = [event for event in events if event.name.startswith("aten::")]
    parents = [event.cpu_parent for event in operations]
    return sum(parent is None or not parent.name.startswith("aten::") for parent in parents)


def sentences(words, shape):
    batch, pad = pairs.random_batch(words, shape, "cpu"), words.pad()
    return [
        {"id": number, "source": source[source != pad], "target": target[target != pad]}
        for number, (source, target) in enumerate(zip(batch.source, batch.target, strict=True))
    ]


@dataclass
class Contestant:
    """A model and the flags of its training beyond those of all."""

    name: str
    flags: str
    stock: bool = False


def contestants(device: str) -> list[Contestant]:
    half = "--fp16" if device == "cuda" else "--bf16"
    models = [
        Contestant("fairseq's", f"{OLD_ADAM} {LOSS}", stock=True),
        Contestant("ours", f"{OLD_ADAM} {LOSS}"),
        Contestant("fused Adam", LOSS),
        Contestant("fused loss", f"{OLD_ADAM} {FUSED_LOSS}"),
        Contestant("both", FUSED_LOSS),
        Contestant("fairseq's, half precision", f"{OLD_ADAM} {LOSS} {half}", stock=True),
        Contestant("both, half precision", f"{FUSED_LOSS} {half}"),
    ]
    if device == "cuda":
        named = "both, half precision, no kernels"
        models.append(Contestant(named, f"{FUSED_LOSS} {half} --attention-impl reference"))
        named = "both, half precision, CUDA graphs"
        models.append(Contestant(named, f"{FUSED_LOSS} {half} --cuda-graphs"))
    return models


def build_trainer(contestant: Contestant, name: str, words, device: str) -> Trainer:
    """Return the trainer that fairseq-train would build."""
    arch, flags = pairs.command(name, contestant.stock)
    command = f"data --arch {arch} {flags} {TRAINING} {contestant.flags}"
    command += " --cpu" * (device == "cpu")
    torch.manual_seed(1)
    args = options.parse_args_and_arch(options.get_training_parser(), command.split())
    cfg = convert_namespace_to_omegaconf(args)
    task = TranslationTask(cfg.task, words, words)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    return Trainer(cfg, task, model, criterion)


def measure_switches(name, words, shape, arguments):
    """Yield time, launches and waits of each contestant."""
    device = arguments.device
    sample = collate(sentences(words, shape), words.pad(), words.eos(), left_pad_source=True)
    chosen = contestants(device)
    steps = [
        partial(build_trainer(contestant, name, words, device).train_step, [sample])
        for contestant in chosen
    ]
    seconds = machine.take_turns(name, steps, arguments.updates, arguments.warmup, device)
    for contestant, times, step in zip(chosen, seconds, steps, strict=True):
        events = events_of(step)
        yield {
            **{"updates": arguments.updates, "name": contestant.name, "flags": contestant.flags},
            "milliseconds": machine.milliseconds(times),
            **machine.compare(times, seconds[0]),
            "launches": count_launches(events, device),
            "waits": sum(event.name == "cudaStreamSynchronize" for event in events),
        }


def cells_of_switches(row, report):
    return {
        **{"update": row["name"], "flags": f"`{row['flags']}`", "model": f"`{row['arch']}`"},
        **{"device": machine.name_of_device(report), "ms": f"{row['milliseconds']:,.0f}"},
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
