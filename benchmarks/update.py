"""Time of the parts of a training update: batch, forward, loss, backward, norm, optimiser.

    python benchmarks/update.py
    python benchmarks/update.py --pairs dman_iwslt_de_en --device cuda --dtype float16

Our model and the stock one take turns, with synchronization between parts: their sum is more than
an update takes. Launches are kernels on a GPU and PyTorch's operations on a CPU. The stock model
has fairseq's loss and Adam, ours the loss of --criterion and the fused Adam.
"""

import statistics
from types import SimpleNamespace

import machine
import translation_pairs as pairs
from fairseq import utils
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.data.language_pair_dataset import collate
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from torch.profiler import ProfilerActivity, profile

LOSSES = ("label_smoothed_cross_entropy", "label_smoothed_cross_entropy_fused")
PARTS = ("batch", "forward", "loss", "backward", "norm", "optimiser")
LAUNCHES = ("cudaLaunchKernel", "cuLaunchKernel")


class Update:
    """An update in parts, each a method that continues from the last one."""

    def __init__(self, model, rows, words, arguments, stock):
        self.model, self.rows, self.words = model.train(), rows, words
        self.device = arguments.device
        task = SimpleNamespace(target_dictionary=words)
        name = LOSSES[0] if stock else arguments.criterion
        options = CRITERION_DATACLASS_REGISTRY[name](label_smoothing=0.1, sentence_avg=False)
        self.criterion = CRITERION_REGISTRY[name].build_criterion(options, task)
        adam = {"adam_betas": "(0.9, 0.98)", "adam_eps": 1e-4, "lr": [1e-5], "tpu": False}
        config = FairseqAdamConfig(**adam, use_old_adam=stock)
        self.parameters = list(model.parameters())
        self.optimizer = FairseqAdam(config, self.parameters)

    def batch(self):
        """Collate the sentences and move them to the device."""
        sample = collate(self.rows, self.words.pad(), self.words.eos(), left_pad_source=True)
        self.sample = utils.apply_to_sample(lambda tensor: tensor.to(self.device), sample)

    def forward(self):
        self.output = self.model(**self.sample["net_input"])

    def loss(self):
        self.value, _ = self.criterion.compute_loss(self.model, self.output, self.sample)

    def backward(self):
        self.optimizer.zero_grad()
        self.value.backward()
        self.output = self.value = None

    def norm(self):
        """Compute the gradients' norm, as fairseq does in every update."""
        utils.clip_grad_norm_(self.parameters, 0.0)

    def optimiser(self):
        self.optimizer.step()


def events_of(work):
    """Return what the profiler records of ``work()``."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        work()
    return recorded.events()


def count_launches(events, device):
    """Return the number of kernels or, on a CPU, of outermost operations."""
    if device == "cuda":
        return sum(event.name.startswith(LAUNCHES) for event in events)
    operations = [event for event in events if event.name.startswith("aten::")]
    return sum(
        event.cpu_parent is None or not event.cpu_parent.name.startswith("aten::")
        for event in operations
    )


def sentences(words, shape):
    """Return random sentences as rows for fairseq's collater."""
    batch = pairs.random_batch(words, shape, "cpu")
    rows = zip(batch.source, batch.target, strict=True)
    sides = ("source", "target")
    return [
        {"id": number}
        | {side: row[row != words.pad()] for side, row in zip(sides, both, strict=True)}
        for number, both in enumerate(rows)
    ]


def measure(name, words, shape, arguments):
    """Return time and launches of each part."""
    rows, device = sentences(words, shape), arguments.device
    models = pairs.build_pair(name, words, arguments)
    updates = [
        Update(model, rows, words, arguments, stock)
        for model, stock in zip(models, (False, True), strict=True)
    ]
    parts = [getattr(update, part) for update in updates for part in PARTS]
    seconds = machine.take_turns(name, parts, arguments.updates, arguments.warmup, device)
    milliseconds = [round(1e3 * statistics.median(times), 2) for times in seconds]
    launches = [count_launches(events_of(part), device) for part in parts]
    return {
        "criterion": arguments.criterion,
        "parts": [
            {
                "part": part,
                "milliseconds": milliseconds[number],
                "stock_milliseconds": milliseconds[number + len(PARTS)],
                "launches": launches[number],
                "stock_launches": launches[number + len(PARTS)],
            }
            for number, part in enumerate(PARTS)
        ],
    }


def tables(report):
    """Return the report's Markdown."""
    heads = {
        **{"milliseconds": "ms", "stock_milliseconds": "fairseq's ms"},
        **{"launches": "launches", "stock_launches": "fairseq's launches"},
    }
    return {
        "": machine.table(
            [
                {"part": part["part"], "model": f"`{pair['arch']}`"}
                | {head: part[key] for key, head in heads.items()}
                for pair in report["pairs"]
                for part in pair["parts"]
            ]
        )
    }


def main():
    """Measure the pairs."""
    parser = machine.make_parser(__doc__)
    pairs.add_arguments(parser, rounds=9, warmup=2)
    parser.add_argument("--criterion", choices=LOSSES, default=LOSSES[0], help="loss of ours")
    pairs.run("update", parser.parse_args(), measure, tables)


if __name__ == "__main__":
    main()
