"""Time and memory of a training update: the plugin's models beside fairseq's.

    python benchmarks/training.py
    python benchmarks/training.py --sentences 256 --device cuda --dtype bfloat16

Both models of a pair have equally many layers and, within a percent, parameters. They take turns,
update by update, on the same random sentences. An update is the forward pass, the label-smoothed
loss, the backward pass and a step of Adam. Memory is the peak of parameters, gradients, moments and
two updates, measured for each model alone.
"""

from functools import partial

import machine
import torch
import translation_pairs as pairs


def trainer(model, batch, padding):
    """Return a function that makes one update."""
    optimizer = torch.optim.Adam(model.train().parameters(), lr=1e-5, eps=1e-4)

    def update():
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

    return update


def measure(name, words, shape, arguments):
    """Return size, memory and time of a pair."""
    device = arguments.device
    batch = pairs.random_batch(words, shape, device)

    def two_updates(stock):
        model = pairs.build(*pairs.command(name, stock), words, device, arguments.dtype)
        update = trainer(model, batch, words.pad())
        update()
        update()

    peaks = [machine.peak_bytes(partial(two_updates, stock), device) for stock in (False, True)]
    models = pairs.build_pair(name, words, arguments)
    updates = [trainer(model, batch, words.pad()) for model in models]
    return {
        "updates": arguments.updates,
        **dict(zip(("parameters", "stock_parameters"), map(pairs.parameters, models), strict=True)),
        **dict(zip(("peak_bytes", "stock_peak_bytes"), peaks, strict=True)),
        **machine.beside_stock(name, *updates, arguments.updates, arguments.warmup, device),
    }


def tables(report):
    """Return the report's Markdown."""
    return {
        "": machine.table(
            [
                pairs.describe(pair, report)
                | {
                    "parameters": ", ".join(
                        f"{pair[key] / 1e6:.2f}M" for key in ("parameters", "stock_parameters")
                    ),
                    "time, ours / fairseq's (rounds)": machine.ratio(pair, "updates"),
                    "peak MB": ", ".join(
                        f"{pair[key] / 1e6:,.0f}" for key in ("peak_bytes", "stock_peak_bytes")
                    ),
                }
                for pair in report["pairs"]
            ]
        )
    }


def main():
    """Measure the pairs."""
    parser = machine.make_parser(__doc__)
    pairs.add_arguments(parser, rounds=15, warmup=3)
    pairs.run("training", parser.parse_args(), measure, tables)


if __name__ == "__main__":
    main()
