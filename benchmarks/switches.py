"""What each thing that makes an update faster gains, as flags of fairseq-train, side by side.

    python benchmarks/switches.py
    python benchmarks/switches.py --device cuda --json FILE

An update is all that fairseq's trainer does with a batch: to the device, forward, loss, backward,
norm, step, log. Models take turns. Launches are kernels on a GPU, and PyTorch's operations on a
CPU; waits are how often the host waits for a GPU.
"""

import statistics
from dataclasses import dataclass

import machine
import torch
import translation_pairs as pairs
import update
from fairseq import options
from fairseq.data.language_pair_dataset import collate
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from torch.profiler import ProfilerActivity, profile

TRAINING = "--no-save --optimizer adam --adam-betas (0.9,0.98) --lr 1e-5 --label-smoothing 0.1"
OLD_ADAM = "--use-old-adam"
FUSED_LOSS = "--criterion label_smoothed_cross_entropy_fused"
LOSS = "--criterion label_smoothed_cross_entropy"
HALF = {"cpu": "--bf16", "cuda": "--fp16"}


@dataclass
class Contestant:
    """A model and how it is trained: ``flags`` are what a table says, beside those of all."""

    name: str
    flags: str
    stock: bool = False
    compiled: bool = False


def contestants(device: str, compiled: bool) -> list[Contestant]:
    half = HALF[device]
    stock = Contestant("fairseq's", f"{OLD_ADAM} {LOSS}", stock=True)
    if compiled:
        return [stock, Contestant("both, compiled", FUSED_LOSS, compiled=True)]
    found = [
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
        found.append(Contestant(named, f"{FUSED_LOSS} {half} --attention-impl reference"))
    return found


def build(contestant: Contestant, name: str, words, device: str) -> Trainer:
    """fairseq's trainer of a contestant's model, as fairseq-train builds it."""
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


def timed(trainer: Trainer, sample: dict, device: str):
    """A function that makes an update and returns the seconds that it took."""

    def run() -> float:
        start = machine.now(device)
        trainer.train_step([sample])
        return machine.now(device) - start

    return run


def count(trainer: Trainer, sample: dict, device: str) -> dict:
    """Launches of an update, and waits for the device."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        trainer.train_step([sample])
    events = recorded.events()
    waits = sum(event.name == "cudaStreamSynchronize" for event in events)
    return {"launches": update.count_launches(events, device), "waits": waits}


def time_pair(name: str, arguments) -> dict:
    words = pairs.dictionary(pairs.PAIRS[name].words)
    shape = pairs.batch_shape(name, arguments)
    rows = update.sentences(pairs.random_batch(words, shape, "cpu"), words)
    sample = collate(rows, words.pad(), words.eos(), left_pad_source=True)
    device = arguments.device
    chosen = contestants(device, arguments.compile)
    trainers = [build(contestant, name, words, device) for contestant in chosen]
    seconds = machine.take_turns(
        name,
        [timed(trainer, sample, device) for trainer in trainers],
        arguments.updates,
        arguments.warmup,
        "round",
    )
    counts = [count(trainer, sample, device) for trainer in trainers]
    results = [
        {
            "name": contestant.name,
            "flags": contestant.flags,
            "milliseconds": round(1e3 * statistics.median(times), 1),
            **machine.compare(times, seconds[0]),
            **counted,
        }
        for contestant, times, counted in zip(chosen, seconds, counts, strict=True)
    ]
    return {
        "arch": name,
        "stock": pairs.PAIRS[name].stock,
        **shape,
        "updates": arguments.updates,
        "contestants": results,
        "told": "; ".join(
            "{name} x {time_ratio:.2f} ({launches} launches, {waits} waits)".format(**result)
            for result in results
        ),
    }


def parse_arguments():
    parser = machine.make_parser(__doc__)
    pairs.add_arguments(parser, dtype=False)
    parser.add_argument("--updates", type=int, default=5, help="counted")
    parser.add_argument("--warmup", type=int, default=2, help="updates before")
    parser.add_argument(
        "--compile", action="store_true", help="by torch.compile alone, which takes minutes"
    )
    return parser.parse_args()


if __name__ == "__main__":
    pairs.run(parse_arguments(), time_pair, "{arch} over {stock}: {told}")
