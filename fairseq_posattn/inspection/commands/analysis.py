"""Plot and measure the attention of a trained model."""

import argparse
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from fairseq_posattn.common import cli, figures
from fairseq_posattn.common.cli import add_checkpoint, add_count, add_model, number_list, positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import check_writable, write_json

if TYPE_CHECKING:  # commands import what loads PyTorch, so that --help need not
    from torch import Tensor

    from fairseq_posattn.inference.trained_model import TrainedModel
    from fairseq_posattn.inspection.places import Place

PLOTS = {  # of `parameters`
    "weights": "DA's w and v of each head, sorted",
    "curves": "DA's function of distance for each head",
    "matrices": "DA's coefficients over a sentence for each head",
    "mask": "DMAN's mask by distance for each head",
}
DEFAULT = "(default: %(default)s)"


def make_parser(prog: str | None = None) -> argparse.ArgumentParser:
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
    about = "window sizes in tokens each way (default: 1,2,4)"
    locality.add_argument(
        "--windows", type=number_list, default=[1, 2, 4], metavar="W,...", help=about
    )
    locality.set_defaults(run=run_locality)

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
    heatmap.set_defaults(run=run_heatmap)

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
    about = f"side of the model {DEFAULT}"
    parameters.add_argument("--side", choices=("encoder", "decoder"), default="encoder", help=about)
    add_count(parameters, "--distance", 20, "largest distance to show, in tokens")
    add_sentences(parameters, required=False)
    add_output(parameters)
    parameters.set_defaults(run=run_parameters)

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
    cost.set_defaults(run=run_cost)
    about = "also, or only, write the numbers to this file"
    for command in (locality, heatmap, parameters, cost):
        command.add_argument("--json", metavar="FILE", help=about)
    return parser


def add_sentences(parser: argparse.ArgumentParser, required: bool) -> None:
    group = parser.add_mutually_exclusive_group(required=required)
    about = "source sentences, one a line; - for standard input. Plain text if the model's data "
    about += "was made by posattn prepare (preparation.json), else tokens separated by spaces"
    group.add_argument("--sentences", metavar="FILE", help=about)
    about = "use the source sentences of this split of the binarized data, such as test"
    group.add_argument("--split", help=about)


def add_output(parser: argparse.ArgumentParser, pages: str = "") -> None:
    parser.add_argument("--output", metavar="FILE", help=f"picture to write: .png or .pdf{pages}")


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    return cli.run(make_parser(prog), analyze, arguments)


def analyze(args: argparse.Namespace) -> None:
    """Run the command that a command line names."""
    if args.json:
        check_writable(args.json, "--json")
    # PyTorch's profiler logs its start; the level is read when PyTorch is imported.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import fairseq_posattn.inspection.inputs  # noqa: F401, loads fairseq, which sets up logging

    logging.root.setLevel(logging.WARNING)  # fairseq logs what it reads
    args.run(args)


def run_locality(args: argparse.Namespace) -> None:
    from fairseq_posattn.inspection import inputs, measures

    trained, chosen = load_attention(args)
    texts = list(read_sentences(trained, args).values())
    rows = measures.locality(inputs.encoder_of(trained), chosen, texts, args.windows)
    write({"sentences": len(texts), "rows": rows}, args)
    print(f"% of attention within the window, mean of {len(texts)} sentences")
    print(measures.locality_table(rows))


def run_heatmap(args: argparse.Namespace) -> None:
    from fairseq_posattn.inspection import heatmap, inputs

    check_output(args)
    trained, chosen = load_attention(args)
    texts = read_sentences(trained, args)
    if args.line not in texts:
        raise UsageError(
            f"--line {args.line}: {args.split or args.sentences} has no sentence there; its last "
            f"line is {max(texts)}"
        )
    sentence = texts[args.line]
    labels = inputs.token_labels(sentence, trained.task.source_dictionary, trained.rules)
    encoder = inputs.encoder_of(trained)
    numbers = heatmap.attention_numbers(encoder, chosen, args.heads, sentence, labels)
    write(numbers, args, heatmap.draw_attention)


def run_parameters(args: argparse.Namespace) -> None:
    from fairseq_posattn.inspection import inputs, parameters

    check_output(args)
    has_sentences = args.sentences or args.split
    if has_sentences and (args.plot != "mask" or args.side != "encoder"):
        raise UsageError(
            "--sentences, --split: only for --plot mask of the encoder; leave them out"
        )
    if len(args.checkpoint) > 1 and args.plot != "weights":
        raise UsageError(
            f"--plot {args.plot}: takes one checkpoint; only --plot weights takes several"
        )
    runs = []
    for path in args.checkpoint:
        trained, places = load_mechanisms(path, args)
        runs.append(places)
        if len(runs) > 1 and parameters.layout(places) != parameters.layout(runs[0]):
            raise UsageError(
                f"{path}: layers, heads or mapping of DA differ from {args.checkpoint[0]}; name "
                "checkpoints of one model with several seeds"
            )
    if len(runs) == 1:
        [args.checkpoint] = args.checkpoint
    first = runs[0]
    draw: Callable[[dict[str, Any]], Any]
    if args.plot == "weights":
        numbers, draw = parameters.weight_numbers(*runs), parameters.draw_weights
    elif args.plot == "curves":
        numbers, draw = parameters.curve_numbers(first, args.distance), parameters.draw_curves
    elif args.plot == "matrices":
        numbers = parameters.matrix_numbers(first, args.distance + 1)
        draw = parameters.draw_matrices
    else:
        terms = None
        if has_sentences:
            texts = list(read_sentences(trained, args).values())
            terms = parameters.median_query_terms(inputs.encoder_of(trained), first, texts)
        numbers, draw = parameters.mask_numbers(first, args.distance, terms), parameters.draw_masks
    write(numbers, args, lambda numbers: [draw(numbers)])


def run_cost(args: argparse.Namespace) -> None:
    import torch

    from fairseq_posattn.inference.trained_model import load
    from fairseq_posattn.inspection import measures
    from fairseq_posattn.training.models.classifier import PosAttnClassifier

    trained = load(args.checkpoint, args.data, reads_data=True)
    on_gpu = torch.cuda.is_available() and not args.cpu
    device = torch.device("cuda" if on_gpu else "cpu")
    if not isinstance(trained.model, PosAttnClassifier):
        kind = type(trained.model).__name__
        raise UsageError(f"{args.checkpoint}: not a classifier of this package, but a {kind}")
    model, task = trained.model.to(device), trained.task
    seconds = measures.inference_seconds(model, task, args.split, args.batch_size, device)
    megabytes = measures.update_megabytes(model, device)
    gpu = torch.cuda.get_device_name(device) if on_gpu else None
    write({"inference_s": seconds, "memory_mb": megabytes, "gpu": gpu}, args)
    print(f"{args.split}, batches of {args.batch_size}: {seconds:.2f} seconds")
    print(
        f"{measures.SENTENCES} sentences of {measures.WORDS} words, forward and backward: "
        f"{megabytes:.0f} MB"
    )


def load_attention(args: argparse.Namespace) -> tuple["TrainedModel", list["Place"]]:
    """Return the model and the chosen places where its tokens attend to tokens."""
    from fairseq_posattn.inference.trained_model import load
    from fairseq_posattn.inspection import inputs, places

    trained = load(args.checkpoint, args.data, reads_data=args.split is not None)
    inputs.encoder_of(trained)
    return trained, places.choose(places.encoder_places(trained), args.layers, args.sublayers)


def load_mechanisms(path: str, args: argparse.Namespace) -> tuple["TrainedModel", list["Place"]]:
    """Return the model and the chosen places whose mechanism ``--plot`` draws; none is an error."""
    from fairseq_posattn.attention import DistanceAwareAttention, DynamicMaskAttention
    from fairseq_posattn.inference.trained_model import load
    from fairseq_posattn.inspection import places

    mechanism = DynamicMaskAttention if args.plot == "mask" else DistanceAwareAttention
    trained = load(path, args.data, reads_data=args.split is not None)
    chosen = places.choose(places.sublayer_places(trained, args.side), args.layers, args.sublayers)
    if drawn := [place for place in chosen if isinstance(place.owner, mechanism)]:
        return trained, drawn
    names = ", ".join(dict.fromkeys(place.name for place in chosen))
    raise UsageError(
        f"--plot {args.plot}: needs {mechanism.__name__}, but the chosen {args.side} sublayers of "
        f"{path} are {names}"
    )


def read_sentences(trained: "TrainedModel", args: argparse.Namespace) -> "dict[int, Tensor]":
    """Return the sentences that the options name, by line."""
    from fairseq_posattn.inspection import inputs

    if args.split:
        return inputs.read_split(args.split, trained)
    inputs.encoder_of(trained)
    return inputs.read_file(args.sentences, trained)


def check_output(args: argparse.Namespace) -> None:
    if not (args.output or args.json):
        raise UsageError("--output, --json: nothing to write; name a picture or a JSON file")
    figures.check_picture(args.output, " (or write the numbers alone, with --json)")


def write(
    numbers: dict[str, Any],
    args: argparse.Namespace,
    draw: Callable[[dict[str, Any]], Iterable[Any]] | None = None,
) -> None:
    """Write the pictures, of which there are several pages if they are large, and the numbers."""
    if draw and args.output:
        files = figures.write_pages(draw(numbers), args.output)
        if len(files) > 1:
            print(f"{len(files)} pictures: {files[0]} to {files[-1]}")
    if args.json:
        write_json(args.json, {"checkpoint": args.checkpoint, **numbers})
