"""Plot and measure the attention of a trained model."""

import argparse
import logging
import os

from fairseq_posattn.common import cli
from fairseq_posattn.common.cli import add_checkpoint, add_count, add_model, number_list, positive
from fairseq_posattn.common.files import check_writable

# By `parameters --plot`.
PLOTS = {
    "weights": "DA's w and v of each head, sorted",
    "curves": "DA's function of distance for each head",
    "matrices": "DA's coefficients over a sentence for each head",
    "mask": "DMAN's mask by distance for each head",
}
DEFAULT = "(default: %(default)s)"


def make_parser(prog=None):
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Plot and measure the attention of a trained model. Layers, heads and lines "
        "are counted from 1.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    locality = commands.add_parser(
        "locality",
        help="table of the share of attention near the query",
        description="Print the percentage of attention within a window around the query, averaged "
        "over heads, queries and sentences (eq. 13 and Table 5 of Mask Attention Networks), for "
        "each encoder sublayer, or for the encoder of a classifier without sublayers (MPSAN, "
        "CSPAN). The end symbol counts as a token, except in classifiers, which do not see it.",
    )
    add_model(locality)
    add_sentences(locality, required=True)
    sizes = {"type": number_list, "default": [1, 2, 4], "metavar": "W,..."}
    about = "window sizes in tokens each way (default: 1,2,4)"
    locality.add_argument("--windows", help=about, **sizes)

    heatmap = commands.add_parser(
        "heatmap",
        help="picture of the attention weights in a sentence",
        description="Draw the encoder's attention weights in one sentence: a panel for each head "
        "(MPSAN: for each mask), a row for each query, a column for each key. MTSA's panels show "
        "its token2token weights, and another panel its source2token weights, averaged over "
        "features.",
    )
    add_model(heatmap)
    add_sentences(heatmap, required=True)
    heatmap.add_argument("--line", type=positive, default=1, help=f"line of the sentence {DEFAULT}")
    about = "heads to draw (default: all)"
    heatmap.add_argument("--heads", type=number_list, metavar="H,...", help=about)
    add_output(heatmap, "; what does not fit on a page is drawn on more: FILE-1.png, FILE-2.png")

    parameters = commands.add_parser(
        "parameters",
        help="picture of learned functions of distance",
        description="Draw learned parameters of DA or DMAN. Sentences are optional: with them, "
        "DMAN's mask is that of their median query. A recommender's two levels are the sublayers "
        "words.da and clicks.da.",
    )
    several = "; --plot weights takes several seeds, and shows the mean of sorted values"
    add_model(parameters, several, nargs="+")
    plots = "; ".join(f"{name}: {what}" for name, what in PLOTS.items())
    parameters.add_argument("--plot", required=True, choices=PLOTS, help=plots)
    sides = {"choices": ("encoder", "decoder"), "default": "encoder"}
    parameters.add_argument("--side", **sides, help=f"side of the model {DEFAULT}")
    add_count(parameters, "--distance", 20, "largest distance to show, in tokens")
    add_sentences(parameters, required=False)
    add_output(parameters)

    cost = commands.add_parser(
        "cost",
        help="inference time and memory of an update of a classifier",
        description="Measure a classifier as in MTSA's Table 1: mean time of a pass over a split, "
        "and peak memory of a forward and backward pass of the encoder over generated sentences; "
        "on the GPU if there is one.",
    )
    add_checkpoint(cost)
    cost.add_argument("--split", default="valid", help=f"split to classify {DEFAULT}")
    add_count(cost, "--batch-size", 128, "sentences or pairs in a batch")
    cost.add_argument("--cpu", action="store_true", help="run on the CPU")
    about = "also, or only, write the numbers to this file"
    for command in (locality, heatmap, parameters, cost):
        command.add_argument("--json", metavar="FILE", help=about)
    return parser


def add_sentences(parser, required):
    group = parser.add_mutually_exclusive_group(required=required)
    about = "source sentences, one a line; - for standard input. Plain text if the model's data "
    about += "was made by posattn prepare (preparation.json), else tokens separated by spaces"
    group.add_argument("--sentences", metavar="FILE", help=about)
    about = "use the source sentences of this split of the binarized data, such as test"
    group.add_argument("--split", help=about)


def add_output(parser, pages=""):
    parser.add_argument("--output", metavar="FILE", help=f"picture to write: .png or .pdf{pages}")


def main(arguments=None, prog=None):
    return cli.run(make_parser(prog), analyze, arguments)


def analyze(args):
    """Run the command that a command line names."""
    if args.json:
        check_writable(args.json, "--json")
    # PyTorch's profiler logs its start; the level is read when PyTorch is imported.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    from fairseq_posattn.inspection import analyses

    logging.root.setLevel(logging.WARNING)  # fairseq logs what it reads
    analyses.RUN[args.command](args)
