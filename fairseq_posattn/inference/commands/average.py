"""Average the weights of several checkpoints of one training run into a new checkpoint.

    %(prog)s --inputs checkpoints/iwslt --num-epoch-checkpoints 5 \\
        --output checkpoints/iwslt/average.pt

The result has the settings of the newest checkpoint and no optimizer state: use it to translate, to
validate and with --finetune-from-model, not to resume training. Checkpoints whose model, languages
or dictionaries differ are refused, and of different seeds, unless they were fine-tuned.
"""

from argparse import ArgumentError, Namespace
from collections.abc import Sequence
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.files import check_unsplit, output_file, writing

WRITTEN = {
    "epoch": "at the end of an epoch (checkpoint3.pt)",
    "update": "within an epoch (checkpoint_3_2000.pt)",
}


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    parser = cli.make_parser(__doc__, prog)
    about = "checkpoints, or folders with checkpoint_best.pt or checkpoint_last.pt, oldest first; "
    about += "with --num-epoch-checkpoints or --num-update-checkpoints, the folder that holds them "
    about += "(fairseq's --save-dir)"
    parser.add_argument("--inputs", nargs="+", required=True, metavar="PATH", help=about)
    about = "checkpoint to write"
    parser.add_argument("--output", required=True, type=output_file, metavar="FILE", help=about)
    count = parser.add_mutually_exclusive_group()
    for kind, when in WRITTEN.items():
        about = f"average the last N checkpoints written {when}"
        count.add_argument(f"--num-{kind}-checkpoints", type=cli.positive, metavar="N", help=about)
    about = "count back from epoch M (or update M) (default: from the last)"
    parser.add_argument("--checkpoint-upper-bound", type=int, metavar="M", help=about)
    return cli.run(parser, average, arguments)


def average(args: Namespace) -> None:
    check_unsplit(args.output, "--output")
    count = args.num_epoch_checkpoints or args.num_update_checkpoints
    if count is None and args.checkpoint_upper_bound is not None:
        needed = "--num-epoch-checkpoints or --num-update-checkpoints"
        raise ArgumentError(None, f"--checkpoint-upper-bound needs {needed}")
    if count and (len(args.inputs) > 1 or not Path(args.inputs[0]).is_dir()):
        problem = "to count checkpoints, name one existing folder"
        raise ArgumentError(None, f"--inputs {' '.join(args.inputs)}: {problem}")
    import torch  # only here: --help needs no PyTorch

    from fairseq_posattn.compat.checkpoints import find_checkpoint
    from fairseq_posattn.inference.averaging import average_checkpoints, last_checkpoints

    if count:
        kind = "epoch" if args.num_epoch_checkpoints else "update"
        paths = last_checkpoints(args.inputs[0], kind, count, args.checkpoint_upper_bound)
    else:
        paths = [find_checkpoint(path) for path in args.inputs]
    state = average_checkpoints(paths)
    with writing(args.output, binary=True) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # PyTorch wraps the error of the file
            raise error.__context__ or error from None
    what = f"the mean of {len(paths)} checkpoints"
    if len(paths) == 1:
        what = f"the weights of {paths[0]} alone; for a mean name several checkpoints, or a folder "
        what += "with --num-epoch-checkpoints N"
    print(f"wrote {args.output}: {what}")
