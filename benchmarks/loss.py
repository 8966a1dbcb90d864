"""Time of the fused label-smoothed loss beside fairseq's, forward and backward, in turns.

python benchmarks/loss.py
python benchmarks/loss.py --rows 4096 --words 37000 --device cuda --dtype float16
"""

from functools import partial

import machine
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss

from fairseq_posattn.training.criterions.fused_cross_entropy import smoothed_loss

SMOOTHING, PADDING = 0.1, 1


def stock(logits, target):
    """Return fairseq's loss."""
    log_probs = torch.log_softmax(logits, dim=-1, dtype=torch.float32)
    return label_smoothed_nll_loss(log_probs, target, SMOOTHING, ignore_index=PADDING)[0]


def fused(logits, target):
    """Return the fused loss."""
    return smoothed_loss(logits, target, SMOOTHING, PADDING)[0]


def measure(words, arguments):
    """Return the times for a dictionary of so many words."""
    torch.manual_seed(1)
    shape, device = (arguments.rows, words), arguments.device
    logits = torch.randn(shape, device=device, dtype=getattr(torch, arguments.dtype))
    logits.requires_grad_()
    target = torch.randint(PADDING + 1, words, shape[:1], device=device)

    def step(loss):
        logits.grad = None
        loss(logits, target).backward()

    steps = [partial(step, loss) for loss in (fused, stock)]
    times = machine.beside_stock(f"{words} words", *steps, arguments.rounds, 2, device)
    return {"rows": arguments.rows, "words": words, "rounds": arguments.rounds, **times}


def tables(report):
    """Return the report's Markdown."""
    rows = [
        {
            "tokens x dictionary": f"{row['rows']} x {row['words']:,}",
            "ms": row["milliseconds"],
            "fairseq's ms": row["stock_milliseconds"],
            "ours / fairseq's (rounds)": machine.ratio(row, "rounds"),
        }
        for row in report["losses"]
    ]
    return {"": machine.table(rows)}


def main():
    """Measure the losses."""
    parser = machine.make_parser(__doc__)
    parser.add_argument("--rows", type=int, default=832, help="tokens of a batch")
    sizes = {"nargs": "+", "default": [10152, 37000], "help": "dictionary sizes"}
    parser.add_argument("--words", type=int, **sizes)
    parser.add_argument("--rounds", type=int, default=9, help="counted rounds")
    machine.add_device(parser)
    arguments = parser.parse_args()
    report = machine.describe(arguments.device, arguments.dtype)
    report["losses"] = [measure(words, arguments) for words in arguments.words]
    machine.finish("loss", report, arguments.json, tables)


if __name__ == "__main__":
    main()
