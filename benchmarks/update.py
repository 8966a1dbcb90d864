"""Where the time of a training update goes: batch, forward, loss, backward, norm, optimiser.

    python benchmarks/update.py
    python benchmarks/update.py --pairs dman_iwslt_de_en --device cuda --dtype float16

Each part is fairseq's own, of our model and of the stock one, which take turns; the device is
waited for between parts, so that their sum is more than an update takes. Launches are kernels on a
GPU and PyTorch's operations on a CPU. --criterion names the loss of ours: fairseq's, or the one
that keeps less. The stock model has fairseq's, and fairseq's own step of Adam, ours the fused one.
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
    """An update in its parts, each a method that goes on from what the last left."""

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
        """Sentences put together, padded and moved to the device."""
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
        """Of the gradients, which fairseq asks for in every update."""
        utils.clip_grad_norm_(self.parameters, 0.0)

    def optimiser(self):
        self.optimizer.step()


def timed(update, part):
    """A function that does the part and returns the seconds that it took."""

    def run():
        start = machine.now(update.device)
        getattr(update, part)()
        return machine.now(update.device) - start

    return run


def launches(update, part):
    """How many kernels or operations a part is."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as recorded:
        getattr(update, part)()
    return count_launches(recorded.events(), update.device)


def count_launches(events, device):
    """Of what the profiler recorded."""
    if device == "cuda":
        return sum(event.name.startswith(LAUNCHES) for event in events)
    operations = [event for event in events if event.name.startswith("aten::")]
    return sum(
        event.cpu_parent is None or not event.cpu_parent.name.startswith("aten::")
        for event in operations
    )


def sentences(batch, words):
    """The random batch as the rows that fairseq puts together."""
    rows = zip(batch.source.cpu(), batch.target.cpu(), strict=True)
    sides = ("source", "target")
    return [
        {"id": number}
        | {side: row[row != words.pad()] for side, row in zip(sides, both, strict=True)}
        for number, both in enumerate(rows)
    ]


def time_pair(name, arguments):
    words = pairs.dictionary(pairs.PAIRS[name].words)
    shape = pairs.batch_shape(name, arguments)
    rows = sentences(pairs.random_batch(words, shape, "cpu"), words)
    updates = [
        Update(model, rows, words, arguments, stock)
        for model, stock in zip(
            pairs.build_pair(name, words, arguments), (False, True), strict=True
        )
    ]
    seconds = machine.take_turns(
        name,
        [timed(update, part) for update in updates for part in PARTS],
        arguments.updates,
        arguments.warmup,
        "update",
    )
    milliseconds = [round(1e3 * statistics.median(times), 2) for times in seconds]
    parts = [
        {
            "part": part,
            "milliseconds": milliseconds[number],
            "stock_milliseconds": milliseconds[number + len(PARTS)],
            "launches": launches(updates[0], part),
            "stock_launches": launches(updates[1], part),
        }
        for number, part in enumerate(PARTS)
    ]
    return {
        "arch": name,
        "stock": pairs.PAIRS[name].stock,
        **shape,
        "criterion": arguments.criterion,
        "parts": parts,
        "told": in_words(parts),
    }


def in_words(parts):
    line = "{part} {milliseconds} ms ({launches}), stock {stock_milliseconds} ({stock_launches})"
    return "; ".join(line.format(**part) for part in parts)


def parse_arguments():
    parser = machine.make_parser(__doc__)
    pairs.add_arguments(parser)
    parser.add_argument("--updates", type=int, default=9, help="counted")
    parser.add_argument("--warmup", type=int, default=2, help="updates before")
    parser.add_argument("--criterion", choices=LOSSES, default=LOSSES[0], help="of ours")
    return parser.parse_args()


if __name__ == "__main__":
    pairs.run(parse_arguments(), time_pair, "{arch} beside {stock}, {criterion}: {told}")
