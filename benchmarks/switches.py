"""Time of a training update under each switch that makes it faster, as flags of fairseq-train.

    python benchmarks/switches.py
    python benchmarks/switches.py --device cuda --json FILE

An update is everything fairseq's trainer does with a batch. Models take turns. Launches are kernels
on a GPU and PyTorch's operations on a CPU; waits are synchronizations of host and GPU.
"""

import statistics
from dataclasses import dataclass
from functools import partial

import machine
import torch
import translation_pairs as pairs
import update
from fairseq import options
from fairseq.data.language_pair_dataset import collate
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer

TRAINING = "--no-save --optimizer adam --adam-betas (0.9,0.98) --lr 1e-5 --label-smoothing 0.1"
OLD_ADAM = "--use-old-adam"
FUSED_LOSS = "--criterion label_smoothed_cross_entropy_fused"
LOSS = "--criterion label_smoothed_cross_entropy"
HALF = {"cpu": "--bf16", "cuda": "--fp16"}


@dataclass
class Contestant:
    """A model and the flags of its training beyond those of all."""

    name: str
    flags: str
    stock: bool = False
    compiled: bool = False


def contestants(device: str, compiled: bool) -> list[Contestant]:
    """Return the models to compare; the first is the stock model."""
    half = HALF[device]
    stock = Contestant("fairseq's", f"{OLD_ADAM} {LOSS}", stock=True)
    if compiled:
        return [stock, Contestant("both, compiled", FUSED_LOSS, compiled=True)]
    models = [
        stock,
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
    return models


def build(contestant: Contestant, name: str, words, device: str) -> Trainer:
    """Return the trainer that fairseq-train would build."""
    arch, flags = pairs.command(name, contestant.stock)
    command = f"data --arch {arch} {flags} {TRAINING} {contestant.flags}"
    command += " --cpu" * (device == "cpu")
    torch.manual_seed(1)
    args = options.parse_args_and_arch(options.get_training_parser(), command.split())
    cfg = convert_namespace_to_omegaconf(args)
    task = TranslationTask(cfg.task, words, words)
    model = task.build_model(cfg.model)
    if contestant.compiled:
        model.compile(dynamic=True)
    return Trainer(cfg, task, model, task.build_criterion(cfg.criterion))


def measure(name, words, shape, arguments):
    """Return time, launches and waits of each contestant."""
    device, rows = arguments.device, update.sentences(words, shape)
    sample = collate(rows, words.pad(), words.eos(), left_pad_source=True)
    chosen = contestants(device, arguments.compile)
    steps = [
        partial(build(contestant, name, words, device).train_step, [sample])
        for contestant in chosen
    ]
    seconds = machine.take_turns(name, steps, arguments.updates, arguments.warmup, device)
    results = []
    for contestant, times, step in zip(chosen, seconds, steps, strict=True):
        events = update.events_of(step)
        row = {"name": contestant.name, "flags": contestant.flags}
        row["milliseconds"] = round(1e3 * statistics.median(times), 1)
        row |= machine.compare(times, seconds[0])
        row["launches"] = update.count_launches(events, device)
        row["waits"] = sum(event.name == "cudaStreamSynchronize" for event in events)
        results.append(row)
    return {"updates": arguments.updates, "contestants": results}


def tables(report):
    """Return the report's Markdown."""
    rows = [
        {
            "update": row["name"],
            "flags": f"`{row['flags']}`",
            "model": f"`{pair['arch']}`",
            "device": machine.name_of_device(report),
            "ms": f"{row['milliseconds']:,.0f}",
            "launches": f"{row['launches']:,}",
            "time / fairseq's": machine.ratio(row),
        }
        for pair in report["pairs"]
        for row in pair["contestants"]
    ]
    return {"": machine.table(rows)}


def main():
    """Measure the pairs."""
    parser = machine.make_parser(__doc__)
    pairs.add_arguments(parser, rounds=5, warmup=2, dtype=False)
    parser.add_argument("--compile", action="store_true", help="torch.compile only (minutes)")
    pairs.run("switches", parser.parse_args(), measure, tables)


if __name__ == "__main__":
    main()
