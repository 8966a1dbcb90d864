"""Look into a trained model."""

import argparse
import logging
import os
from functools import partial

from fairseq_posattn.common import cli
from fairseq_posattn.common.cli import add_data, name_list, number_list, positive

# What `parameters --plot` shows.
PLOTS = {
    "weights": "DA's w and v of each head, sorted",
    "curves": "DA's function of distance for each head",
    "matrices": "DA's coefficients over a sentence for each head",
    "mask": "DMAN's mask by distance for each head",
}

FURTHEST = 1000  # a matrix of so many rows and columns is drawn for each head


def distance(text):
    """The type of an option that is a distance which can be drawn."""
    number = positive(text)
    if number > FURTHEST:
        raise argparse.ArgumentTypeError(f"{text} is more than the {FURTHEST:,} that can be shown")
    return number


def windows(text):
    """The type of distances from the query, with commas between."""
    numbers = number_list(text)
    if min(numbers) < 0:
        raise argparse.ArgumentTypeError(f"{text}: a window is 0 tokens or more")
    return numbers


windows.__name__ = number_list.__name__  # as argparse calls it in its errors


def make_parser(prog=None):
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Look into a trained model. Layers, heads and lines are counted from 1.",
    )
    looks = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_locality(looks)
    add_heatmap(looks)
    add_parameters(looks)
    add_cost(looks)
    return parser


def add_locality(looks):
    parser = looks.add_parser(
        "locality",
        help="how much attention stays near the query, as a table",
        description="Print the percentage of attention that stays within some tokens of the "
        "query, averaged over heads, queries and sentences (eq. 13 and Table 5 of Mask Attention "
        "Networks), for the encoder's sublayers side by side. The end of sentence is a token too.",
    )
    add_model(parser)
    add_sentences(parser, required=True)
    parser.add_argument(
        "--windows",
        type=windows,
        default=[1, 2, 4],
        metavar="W,...",
        help="how many tokens each way (default: 1,2,4)",
    )
    add_json(parser)


def add_heatmap(looks):
    parser = looks.add_parser(
        "heatmap",
        help="who attends to whom in a sentence, as a picture",
        description="Draw the encoder's attention in one sentence: a square for each head, a row "
        "for each query, a column for each key. MTSA's squares show its token2token weights; its "
        "source2token weights, averaged over the features, stand beside them.",
    )
    add_model(parser)
    add_sentences(parser, required=True)
    parser.add_argument(
        "--line", type=positive, default=1, help="which of the sentences (default: the first)"
    )
    parser.add_argument("--heads", type=number_list, metavar="H,...", help="default: all heads")
    add_output(parser)
    add_json(parser)


def add_parameters(looks):
    parser = looks.add_parser(
        "parameters",
        help="what a model has learned about distance, as a picture",
        description="Draw learned parameters of DA or DMAN. No sentences are needed; with some, "
        "DMAN's mask is that of their median query. Of a recommender, words.da and clicks.da are "
        "the sublayers of its two levels.",
    )
    add_model(parser, nargs="+")
    parser.add_argument(
        "--plot",
        required=True,
        choices=PLOTS,
        help="; ".join(f"{name}: {what}" for name, what in PLOTS.items()),
    )
    parser.add_argument(
        "--side",
        choices=("encoder", "decoder"),
        default="encoder",
        help="of the model (default: %(default)s)",
    )
    parser.add_argument(
        "--distance",
        type=distance,
        default=20,
        metavar="N",
        help="furthest distance that is shown, in tokens (default: %(default)s)",
    )
    add_sentences(parser, required=False)
    add_output(parser)
    add_json(parser)
    parser.set_defaults(plots=PLOTS)


def add_cost(looks):
    parser = looks.add_parser(
        "cost",
        help="what a classifier costs: seconds of inference, memory of an update",
        description="Measure a classifier as MTSA's Table 1 does: the mean time of a pass over a "
        "split, and the memory that made-up sentences take in the encoder, forward and backward. "
        "On the GPU, if there is one.",
    )
    add_checkpoint(parser)
    parser.add_argument("--split", default="valid", help="to classify (default: %(default)s)")
    parser.add_argument(
        "--batch-size",
        type=positive,
        default=128,
        metavar="N",
        help="sentences, or pairs, at a time (default: %(default)s)",
    )
    parser.add_argument("--cpu", action="store_true", help="even if there is a GPU")
    add_json(parser)


def add_checkpoint(parser, **several):
    help = "of fairseq-train, as checkpoints/checkpoint_best.pt"
    if several:
        help += "; --plot weights takes those of several seeds, and shows the mean of sorted values"
    parser.add_argument("checkpoint", help=help, **several)
    add_data(parser)


def add_model(parser, **several):
    add_checkpoint(parser, **several)
    parser.add_argument("--layers", type=number_list, metavar="L,...", help="default: all layers")
    parser.add_argument(
        "--sublayers",
        type=name_list,
        metavar="NAME,...",
        help="as in --encoder-sublayers (default: all that attend)",
    )


def add_sentences(parser, required):
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument(
        "--sentences",
        metavar="FILE",
        help="a source sentence a line, tokenised and cut into pieces as in training; - reads the "
        "standard input",
    )
    group.add_argument(
        "--split", help="take the source sentences of this split of the binarised data, as test"
    )


def add_output(parser):
    parser.add_argument("--output", metavar="FILE", help="the picture to write: .png or .pdf")


def add_json(parser):
    parser.add_argument("--json", metavar="FILE", help="also, or only, write the numbers there")


def main(arguments=None, prog=None):
    """Look; returns the exit status."""
    parser = make_parser(prog)
    args = parser.parse_args(arguments)  # first, so that --help needs no PyTorch
    return cli.end(parser.prog, partial(look, args))


def look(args):
    """Do what a command line asks for."""
    # PyTorch's profiler says on the standard error that it starts; read when PyTorch is loaded.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from fairseq_posattn.inspection import looks

    logging.root.setLevel(logging.WARNING)  # fairseq tells what it reads
    looks.RUN[args.command](args)
