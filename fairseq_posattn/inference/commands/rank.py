"""Rank the news of impressions with a trained recommender.

    %(prog)s checkpoints/mind/checkpoint_best.pt --split test --scores scores.tsv
    posattn score ranking --scores scores.tsv

The scores are a line for each impression: its name, a JSON list of labels and one of scores,
separated by TABs, as `posattn score ranking` reads them. --submission writes ranks in MIND's
format. `popularity` in place of a checkpoint scores news by their clicks in the training split.
"""

import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.files import output_file, writing
from fairseq_posattn.scoring.ranking import rank_by_popularity, scores_line, submission_line

POPULARITY = "popularity"


def make_parser(prog=None):
    parser = cli.make_parser(__doc__, prog)
    parser.add_argument(
        "checkpoint", help=f"checkpoint of fairseq-train, its folder, or {POPULARITY}"
    )
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="binarized data with its text (default: the training data)",
    )
    parser.add_argument(
        "--split",
        default="test",
        metavar="NAME",
        help="split: train, valid, test or submission (without labels) (default: %(default)s)",
    )
    parser.add_argument(
        *("--scores", "--output"),
        type=output_file,
        metavar="FILE",
        help="write labels and scores",
    )
    parser.add_argument(
        "--submission", type=output_file, metavar="FILE", help="write ranks, as prediction.txt"
    )
    cli.add_count(parser, "--batch-size", 256, "impressions in a batch")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU")
    return parser


def main(arguments=None, prog=None):
    """Rank; return the exit status."""
    parser = make_parser(prog)
    args = parser.parse_args(arguments)  # first, so that --help needs no PyTorch
    files = [os.path.realpath(path) for path in (args.scores, args.submission) if path]
    if not files:
        parser.error("nothing to write: give --scores FILE, --submission FILE or both")
    if len(files) > len(set(files)):  # two pipes into one file deadlock
        parser.error(f"--scores and --submission are both {args.scores}: name two files")
    if args.checkpoint == POPULARITY and not args.data:
        parser.error("popularity needs --data FOLDER")
    return cli.end(parser.prog, partial(rank, args))


def rank(args):
    """Write the files that a command line names."""
    if args.checkpoint == POPULARITY:
        impressions = rank_by_popularity(Path(args.data), args.split)
    else:
        from fairseq_posattn.inference import news_ranking  # imports fairseq

        where = args.checkpoint, args.split, args.data, args.batch_size
        impressions = news_ranking.rank(*where, "cpu" if args.cpu else None)
    count = write(impressions, args.scores, args.submission)
    print(f"{count:,} impressions: {' '.join(filter(None, (args.scores, args.submission)))}")


def write(impressions, scores, submission):
    """Write both files completely or not at all; return the number of impressions."""
    count = 0
    formats = {scores: scores_line, submission: submission_line}
    with ExitStack() as stack:
        files = [
            (stack.enter_context(writing(path)), line) for path, line in formats.items() if path
        ]
        for impression in impressions:
            count += 1
            for file, line in files:
                file.write(line(impression))
    return count
