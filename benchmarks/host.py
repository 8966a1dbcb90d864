"""What a training step costs the host, and what it launches, on any machine: no GPU is needed.

    python benchmarks/host.py

Kernels are compiled and not launched (no_driver.py), so that what is left is Python's own time, of
the processor that runs it: the least over the rounds. Of the implementations that PyTorch computes
the tensors have two positions, so that there is next to nothing to compute. Launches are counted
as traffic.py does, over forward and backward pass.
"""

import time
from functools import partial

import machine
import no_driver
import torch
import torch.nn.functional as F
import traffic
from tabulate import tabulate

from fairseq_posattn.attention.cases import KERNELS, Sizes

TINY, SHORT, LONG = Sizes(1, 2, 2, 2, 16), Sizes(4, 4, 26, 26, 64), Sizes(2, 4, 128, 128, 64)
MECHANISMS = ("dman", "da", "mtsa", "mpsan")


def plain(query, key, value, impl, **options):
    return F.scaled_dot_product_attention(query, key, value)


def training_step(name, impl, sizes, dropout=0.0):
    """A function that makes one step."""
    case = KERNELS["dman" if name == "plain" else name]
    given = case.arguments(sizes, torch.bfloat16)
    if name == "plain":
        given = {vector: given[vector] for vector in ("query", "key", "value")}
    options = {"impl": impl, "dropout_p": dropout}
    attend = partial(plain if name == "plain" else case.function, **given, **options)
    leaves = [tensor for tensor in given.values() if torch.is_tensor(tensor)]

    def step():
        for tensor in leaves:
            tensor.grad = None
        context = attend()
        context.backward(context.detach())

    return step


def microseconds(step, steps, rounds):
    """Of the processor, for one step."""
    for _ in range(3):
        step()
    least = float("inf")
    for _ in range(rounds):
        start = time.thread_time()
        for _ in range(steps):
            step()
        least = min(least, (time.thread_time() - start) / steps)
    return round(1e6 * least, 1)


def main():
    parser = machine.make_parser(__doc__)
    parser.add_argument("--mechanisms", nargs="+", choices=MECHANISMS, default=MECHANISMS)
    parser.add_argument("--steps", type=int, default=20, help="of a round")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    no_driver.install()
    torch.set_num_threads(1)
    time_of = partial(microseconds, steps=arguments.steps, rounds=arguments.rounds)
    rows = [
        {"mechanism": "plain", "by": "sdpa", "short": time_of(training_step("plain", "", TINY))}
    ]
    for name in arguments.mechanisms:
        reference = time_of(training_step(name, "reference", TINY))
        rows.append({"mechanism": name, "by": "reference", "short": reference})
        rows.append(
            {
                "mechanism": name,
                "by": "triton",
                "launches": sum(traffic.count(name, "triton")[::2]),
                "short": time_of(training_step(name, "triton", SHORT)),
                "long": time_of(training_step(name, "triton", LONG)),
                "long, dropout": time_of(training_step(name, "triton", LONG, 0.1)),
            }
        )
    print("Microseconds of the host for a training step; short: 26 positions, long: 128.")
    print(tabulate(rows, headers="keys", tablefmt="github"))
    report = {"torch": torch.__version__, "rows": rows}
    machine.keep(report, arguments.json)


if __name__ == "__main__":
    main()
