"""Words per second in training: the plugin's models beside fairseq's own, in one run.

    python benchmarks/training.py
    python benchmarks/training.py --sentences 256 --device cuda --dtype bfloat16

The two models of a pair have equally many layers and, to within a percent or so, parameters. They
take turns, update by update, on the same random sentences. An update is the forward pass, the
label-smoothed loss, the backward pass and a step of Adam. Memory is the most that model, gradients,
moments and update have at a time, before the models take turns, each alone.
"""

import statistics
from functools import partial

import machine
import torch
import translation_pairs as pairs


def parse_arguments():
    parser = machine.make_parser(__doc__)
    pairs.add_arguments(parser)
    parser.add_argument("--updates", type=int, default=15, help="counted updates of each model")
    parser.add_argument("--warmup", type=int, default=3, help="updates before those")
    return parser.parse_args()


def trainer(model, batch, padding, device):
    """A function that makes one update and returns the seconds that it took."""
    optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-5, eps=1e-4)

    def update():
        start = machine.now(device)
        optimizer.zero_grad()
        output = model(batch.source, batch.lengths, batch.previous)[0]
        loss = torch.nn.functional.cross_entropy(
            output.flatten(0, 1).float(),
            batch.target.flatten(),
            ignore_index=padding,
            label_smoothing=0.1,
        )
        loss.backward()
        optimizer.step()
        return machine.now(device) - start

    return update


def memory(name, words, batch, arguments):
    """Bytes of both models' updates, the second of which has all that there ever is."""

    device = arguments.device

    def two_updates(stock):
        command = pairs.command(name, stock)
        model = pairs.build(*command, words, device, arguments.dtype)
        update = trainer(model, batch, words.pad(), device)
        update()
        update()

    return [machine.peak_bytes(partial(two_updates, stock), device) for stock in (False, True)]


def time_pair(name, arguments):
    words = pairs.dictionary(pairs.PAIRS[name].words)
    shape = pairs.batch_shape(name, arguments)
    batch = pairs.random_batch(words, shape, arguments.device)
    peak, stock_peak = memory(name, words, batch, arguments)
    models = pairs.build_pair(name, words, arguments)
    updates = [trainer(model, batch, words.pad(), arguments.device) for model in models]
    ours, theirs = machine.take_turns(name, updates, arguments.updates, arguments.warmup, "update")
    return {
        "arch": name,
        "stock": pairs.PAIRS[name].stock,
        **shape,
        "updates": arguments.updates,
        "parameters": pairs.parameters(models[0]),
        "stock_parameters": pairs.parameters(models[1]),
        "peak_bytes": peak,
        "stock_peak_bytes": stock_peak,
        "memory_ratio": round(peak / stock_peak, 3),
        "words_per_second": round(batch.words / statistics.median(ours)),
        "stock_words_per_second": round(batch.words / statistics.median(theirs)),
        **machine.compare(ours, theirs),
    }


LINE = (
    "{arch} ({parameters:,} parameters, {words_per_second:,} words/s) against "
    "{stock} ({stock_parameters:,}, {stock_words_per_second:,}), {sentences} sentences of "
    "up to {source_length} to {target_length} words: time per update x {time_ratio:.2f} "
    "(median of {updates}; {time_ratio_lowest:.2f} to {time_ratio_highest:.2f}), "
    "peak memory x {memory_ratio:.2f}"
)


if __name__ == "__main__":
    pairs.run(parse_arguments(), time_pair, LINE)
