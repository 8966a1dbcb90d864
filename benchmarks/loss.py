"""Time of fairseq's label-smoothed loss, and of the one that keeps less in memory, in turns.

    python benchmarks/loss.py
    python benchmarks/loss.py --rows 4096 --words 37000 --device cuda --dtype float16

Forward and backward pass from random scores.
"""

import statistics

import machine
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from fairseq_posattn.training.criterions.fused_cross_entropy import smoothed_loss

SMOOTHING, PADDING = 0.1, 1


def stock(scores, target):
    log_probs = torch.log_softmax(scores, dim=-1, dtype=torch.float32)
    return label_smoothed_nll_loss(log_probs, target, SMOOTHING, ignore_index=PADDING)[0]


def fused(scores, target):
    return smoothed_loss(scores, target, SMOOTHING, PADDING)[0]


def contestant(loss, scores, target, device):
    """A function that goes through the loss and back, and returns the seconds that it took."""

    def there_and_back():
        start = machine.now(device)
        loss(scores, target).backward()
        seconds = machine.now(device) - start
        scores.grad = None
        return seconds

    return there_and_back


def parse_arguments():
    parser = machine.make_parser(__doc__)
    parser.add_argument("--rows", type=int, default=832, help="words of a batch")
    parser.add_argument(
        "--words", type=int, nargs="+", default=[10152, 37000], help="of the dictionary"
    )
    parser.add_argument("--rounds", type=int, default=9, help="counted")
    machine.add_device(parser)
    return parser.parse_args()


def measure(words, arguments):
    torch.manual_seed(1)
    shape, device = (arguments.rows, words), arguments.device
    scores = torch.randn(shape, device=device, dtype=getattr(torch, arguments.dtype))
    scores.requires_grad_()
    target = torch.randint(PADDING + 1, words, shape[:1], device=device)
    contestants = [contestant(loss, scores, target, device) for loss in (fused, stock)]
    ours, theirs = machine.take_turns(f"{words} words", contestants, arguments.rounds, 2, "round")
    return {
        "rows": arguments.rows,
        "words": words,
        "rounds": arguments.rounds,
        "milliseconds": round(1e3 * statistics.median(ours), 1),
        "stock_milliseconds": round(1e3 * statistics.median(theirs), 1),
        **machine.compare(ours, theirs),
    }


def main():
    arguments = parse_arguments()
    report = machine.describe(arguments.device, arguments.dtype)
    report["losses"] = [measure(words, arguments) for words in arguments.words]
    for row in report["losses"]:
        print(
            "{rows} x {words}: {milliseconds} ms, fairseq's {stock_milliseconds}: x "
            "{time_ratio:.2f} ({time_ratio_lowest:.2f} to {time_ratio_highest:.2f})".format(**row)
        )
    machine.keep(report, arguments.json)


if __name__ == "__main__":
    main()
