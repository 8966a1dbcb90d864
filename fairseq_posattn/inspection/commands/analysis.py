"""Plot and measure the attention of a trained model."""

import argparse
import logging
import os
from functools import partial

from fairseq_posattn.common import cli
from fairseq_posattn.common.cli import add_data, name_list, number_list, positive

# By `parameters --plot`.
PLOTS = {
    "weights": "DA's w and v of each head, sorted",
    "curves": "DA's function of distance for each head",
    "matrices": "DA's coefficients over a sentence for each head",
    "mask": "DMAN's mask by distance for each head",
}

FURTHEST = 1000  # rows and columns of the matrix drawn for each head


def distance(text):
    """Parse a distance that can be drawn."""
    number = positive(text)
    if number > FURTHEST:
        raise argparse.ArgumentTypeError(f"{text} is more than {FURTHEST:,}")
    return number


def windows(text):
    """Parse distances separated by commas."""
    numbers = number_list(text)
    if min(numbers) < 0:
        raise argparse.ArgumentTypeError(f"{text}: a window must be 0 tokens or more")
    return numbers


windows.__name__ = number_list.__name__  # for argparse's errors


def make_parser(prog=None):
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Plot and measure the attention of a trained model. Layers, heads and lines "
        "are counted from 1.",
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
        help="table of the share of attention near the query",
        description="Print the percentage of attention within a window around the query, averaged "
        "over heads, queries and sentences (eq. 13 and Table 5 of Mask Attention Networks), for "
        "each encoder sublayer. The end symbol counts as a token.",
    )
    add_model(parser)
    add_sentences(parser, required=True)
    parser.add_argument(
        "--windows",
        type=windows,
        default=[1, 2, 4],
        metavar="W,...",
        help="window sizes in tokens each way (default: 1,2,4)",
    )
    add_json(parser)


def add_heatmap(looks):
    parser = looks.add_parser(
        "heatmap",
        help="picture of the attention weights in a sentence",
        description="Draw the encoder's attention weights in one sentence: a panel for each head, "
        "a row for each query, a column for each key. MTSA's panels show its token2token weights, "
        "with its source2token weights, averaged over features, beside them.",
    )
    add_model(parser)
    add_sentences(parser, required=True)
    parser.add_argument(
        "--line", type=positive, default=1, help="line of the sentence (default: %(default)s)"
    )
    parser.add_argument(
        "--heads", type=number_list, metavar="H,...", help="heads to draw (default: all)"
    )
    add_output(parser)
    add_json(parser)


def add_parameters(looks):
    parser = looks.add_parser(
        "parameters",
        help="picture of learned functions of distance",
        description="Draw learned parameters of DA or DMAN. Sentences are optional: with them, "
        "DMAN's mask is that of their median query. A recommender's two levels are the sublayers "
        "words.da and clicks.da.",
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
        help="side of the model (default: %(default)s)",
    )
    parser.add_argument(
        "--distance",
        type=distance,
        default=20,
        metavar="N",
        help="largest distance to show, in tokens (default: %(default)s)",
    )
    add_sentences(parser, required=False)
    add_output(parser)
    add_json(parser)
    parser.set_defaults(plots=PLOTS)


def add_cost(looks):
    parser = looks.add_parser(
        "cost",
        help="inference time and memory of an update of a classifier",
        description="Measure a classifier as in MTSA's Table 1: mean time of a pass over a split, "
        "and peak memory of a forward and backward pass of the encoder over generated sentences; "
        "on the GPU if there is one.",
    )
    add_checkpoint(parser)
    parser.add_argument("--split", default="valid", help="split to classify (default: %(default)s)")
    parser.add_argument(
        "--batch-size",
        type=positive,
        default=128,
        metavar="N",
        help="sentences or pairs in a batch (default: %(default)s)",
    )
    parser.add_argument("--cpu", action="store_true", help="run on the CPU")
    add_json(parser)


def add_checkpoint(parser, **several):
    help = "checkpoint of fairseq-train, or its folder"
    if several:
        help += "; --plot weights takes several seeds, and shows the mean of sorted values"
    parser.add_argument("checkpoint", help=help, **several)
    add_data(parser)


def add_model(parser, **several):
    add_checkpoint(parser, **several)
    parser.add_argument("--layers", type=number_list, metavar="L,...", help="layers (default: all)")
    parser.add_argument(
        "--sublayers",
        type=name_list,
        metavar="NAME,...",
        help="sublayers, as in --encoder-sublayers (default: all attention sublayers)",
    )


def add_sentences(parser, required):
    group = parser.add_mutually_exclusive_group(required=required)
    group.add_argument(
        "--sentences",
        metavar="FILE",
        help="source sentences, one a line, in subwords as in training; - for standard input",
    )
    group.add_argument(
        "--split", help="use the source sentences of this split of the binarised data, such as test"
    )


def add_output(parser):
    parser.add_argument("--output", metavar="FILE", help="picture to write: .png or .pdf")


def add_json(parser):
    parser.add_argument(
        "--json", metavar="FILE", help="also, or only, write the numbers to this file"
    )


def main(arguments=None, prog=None):
    """Analyse; return the exit status."""
    parser = make_parser(prog)
    args = parser.parse_args(arguments)  # first, so that --help needs no PyTorch
    return cli.end(parser.prog, partial(look, args))


def look(args):
    """Run the command that a command line names."""
    # PyTorch's profiler logs its start; the level is read when PyTorch is imported.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from fairseq_posattn.inspection import analyses

    logging.root.setLevel(logging.WARNING)  # fairseq logs what it reads
    looks.RUN[args.command](args)
