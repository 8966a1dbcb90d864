"""Rank the news of impressions with a trained recommender.

    %(prog)s checkpoints/mind/checkpoint_best.pt --split test --scores scores.tsv
    posattn score ranking --scores scores.tsv

The scores are as `posattn score ranking` reads them: a line an impression, its name, a JSON list of
labels and one of scores, with TABs between. --submission writes ranks as MIND takes them. The word
popularity in the place of a checkpoint scores news by their clicks in the training split.
"""

import logging
import os
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.files import output_file, writing
from fairseq_posattn.scoring.popularity import rank_by_popularity
from fairseq_posattn.scoring.ranking import scores_line, submission_line

POPULARITY = "popularity"


def make_parser(prog=None):
    parser = cli.make_parser(__doc__, prog)
    parser.add_argument("checkpoint", help=f"file that fairseq-train wrote, or {POPULARITY}")
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="binarised data, with its text (default: that of the checkpoint's training)",
    )
    parser.add_argument(
        "--split",
        default="test",
        metavar="NAME",
        help="which impressions: train, valid, test or, where MIND has no labels, submission "
        "(default: %(default)s)",
    )
    parser.add_argument("--scores", type=output_file, metavar="FILE", help="write labels, scores")
    parser.add_argument(
        "--submission", type=output_file, metavar="FILE", help="write ranks, as prediction.txt"
    )
    parser.add_argument(
        "--batch-size",
        type=positive,
        default=256,
        metavar="N",
        help="impressions that the model sees at once (default: %(default)s)",
    )
    parser.add_argument("--cpu", action="store_true", help="leave the GPU alone")
    return parser


def main(arguments=None, prog=None):
    """Rank; returns the exit status."""
    parser = make_parser(prog)
    args = parser.parse_args(arguments)  # first, so that --help needs no PyTorch
    files = [os.path.realpath(path) for path in (args.scores, args.submission) if path]
    if not files:
        parser.error("nothing to write: give --scores FILE, --submission FILE or both")
    if len(files) > len(set(files)):  # each would wait for the other's end
        parser.error(f"--scores and --submission are both {args.scores}: name two files")
    if args.checkpoint == POPULARITY and not args.data:
        parser.error("popularity needs --data FOLDER")
    return cli.end(parser.prog, partial(rank, args))


def rank(args):
    """Write what a command line asks for."""
    count = write(rankings(args), args.scores, args.submission)
    print(f"{count:,} impressions: {' '.join(filter(None, (args.scores, args.submission)))}")


def rankings(args):
    """The impressions that a command line asks for, with their scores."""
    if args.checkpoint == POPULARITY:
        return rank_by_popularity(Path(args.data), args.split)
    from fairseq_posattn.inference import news_ranking  # only here: it takes seconds

    logging.disable(logging.INFO)  # fairseq tells of its dictionaries
    device = "cpu" if args.cpu else None
    return news_ranking.rank(args.checkpoint, args.split, args.data, args.batch_size, device)


def write(impressions, scores, submission):
    """Write both files, whole or not at all; returns how many impressions there were."""
    count = 0
    with ExitStack() as stack:
        files = [
            (stack.enter_context(writing(path)), line)
            for path, line in ((scores, scores_line), (submission, submission_line))
            if path
        ]
        for impression in impressions:
            count += 1
            for file, line in files:
                file.write(line(impression))
    return count
