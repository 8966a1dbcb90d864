"""Measure the attention of a trained model."""

import argparse
import logging
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairseq_posattn.common import cli, figures
from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.files import check_writable, write_json
from fairseq_posattn.inference.options import add_checkpoint, add_model

if TYPE_CHECKING:  # commands import what loads PyTorch, so that --help need not
    from fairseq_posattn.inspection.attention_layers import AttentionLayer

DEFAULT = "(default: %(default)s)"


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    about = "Measure the attention of a trained model. Layers are counted from 1."
    parser = argparse.ArgumentParser(prog=prog, description=about)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    locality = commands.add_parser(
        "locality",
        help="table of the share of attention near the query",
        description="Print the percentage of attention within a window around the query, averaged "
        "over heads, queries and sentences (eq. 13 and Table 5 of Mask Attention Networks), for "
        "each encoder sublayer, or for the encoder of a classifier without sublayers (MPSAN, "
        "CSPAN). The end symbol counts as a token, except in classifiers, which do not see it. "
        "A query that sees no key, as the first word under a mask of earlier words, counts as 0.",
    )
    add_model(locality)
    texts = locality.add_mutually_exclusive_group(required=True)
    about = "source sentences, one a line; - for standard input. Plain text if the model's data "
    about += "was made by posattn prepare (preparation.json), else tokens separated by spaces"
    texts.add_argument("--sentences", metavar="FILE", help=about)
    about = "use the source sentences of this split of the binarized data, such as test"
    texts.add_argument("--split", help=about)
    about = "window sizes in tokens each way (default: 1,2,4)"
    locality.add_argument(
        "--windows", type=cli.number_list, default=[1, 2, 4], metavar="W,...", help=about
    )
    locality.set_defaults(run=run_locality)

    parameters = commands.add_parser(
        "parameters",
        help="picture of DA's learned w and v of each head, sorted",
        description="Draw DA's learned w and v of each head, sorted. Several seeds show the mean "
        "of sorted values. A recommender's two levels are the sublayers words.da and clicks.da. "
        "posattn look shows functions of distance and DMAN's mask.",
    )
    add_model(parameters, "; several seeds of one model show their mean", nargs="+")
    about = "w and v of each head, sorted"
    parameters.add_argument("--plot", default="weights", choices=("weights",), help=about)
    about = f"side of the model {DEFAULT}"
    parameters.add_argument("--side", choices=("encoder", "decoder"), default="encoder", help=about)
    about = "picture to write: .png or .pdf"
    parameters.add_argument("--output", metavar="FILE", help=about)
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
    cli.add_count(cost, "--batch-size", 128, "sentences or pairs in a batch")
    cost.add_argument("--cpu", action="store_true", help="run on the CPU")
    cost.set_defaults(run=run_cost)
    about = "also, or only, write the numbers to this file"
    for command in (locality, parameters, cost):
        command.add_argument("--json", metavar="FILE", help=about)
    return cli.run(parser, analyze, arguments)


def analyze(args: argparse.Namespace) -> None:
    if args.json:
        check_writable(args.json, "--json")
    # PyTorch's profiler logs its start; the level is read when PyTorch is imported.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    import fairseq_posattn.inspection.inputs  # noqa: F401, loads fairseq, which sets up logging

    logging.root.setLevel(logging.WARNING)  # fairseq logs what it reads
    args.run(args)


def run_locality(args: argparse.Namespace) -> None:
    from fairseq_posattn.inference.trained_model import load
    from fairseq_posattn.inspection import attention_layers, inputs, measures

    model = load(args.checkpoint, args.data, reads_data=args.split is not None)
    encoder = inputs.encoder_of(model)
    shown = attention_layers.choose(attention_layers.of_encoder(model), args.layers, args.sublayers)
    if args.split:
        texts = inputs.read_split(args.split, model)
    else:
        texts = [*inputs.read_file(args.sentences, model).values()]
    rows = measures.locality(encoder, shown, texts, args.windows)
    write({"sentences": len(texts), "rows": rows}, args)
    print(f"% of attention within the window, mean of {counted(len(texts), 'sentence')}")
    print(measures.locality_table(rows))


def run_parameters(args: argparse.Namespace) -> None:
    from fairseq_posattn.inspection import parameters

    if not (args.output or args.json):
        raise UsageError("--output, --json: nothing to write; name a picture or a JSON file")
    figures.check_picture(args.output, " (or write the numbers alone, with --json)")
    first, *others = runs = [load_mechanisms(path, args) for path in args.checkpoint]
    for path, layers in zip(args.checkpoint[1:], others, strict=True):
        if parameters.layout(layers) != parameters.layout(first):
            fix = "name checkpoints of one model with several seeds"
            differ = f"layers, heads or mapping of DA differ from {args.checkpoint[0]}"
            raise UsageError(f"{path}: {differ}; {fix}")
    if not others:
        [args.checkpoint] = args.checkpoint
    numbers = parameters.weight_numbers(*runs)
    if args.output:
        figures.write_picture(parameters.draw_weights(numbers), args.output)
    write(numbers, args)


def run_cost(args: argparse.Namespace) -> None:
    import torch

    from fairseq_posattn.inference.trained_model import find_device, load
    from fairseq_posattn.inspection import measures
    from fairseq_posattn.training.models.classifier import PosAttnClassifier

    trained = load(args.checkpoint, args.data, reads_data=True)
    device = find_device("cpu" if args.cpu else None)
    if not isinstance(trained.model, PosAttnClassifier):
        raise trained.refusal("not a classifier of this package")
    model, task = trained.model.to(device), trained.task
    seconds = measures.inference_seconds(model, task, args.split, args.batch_size, device)
    megabytes = measures.update_megabytes(model, device)
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else None
    write({"inference_s": seconds, "memory_mb": megabytes, "gpu": gpu}, args)
    print(f"{args.split}, batches of {args.batch_size}: {seconds:.2f} seconds")
    generated = f"{measures.SENTENCES} sentences of {measures.WORDS} words"
    print(f"{generated}, forward and backward: {megabytes:.0f} MB")


def load_mechanisms(path: str, args: argparse.Namespace) -> list["AttentionLayer"]:
    """Return the chosen layers of DA in a model; none is an error."""
    from fairseq_posattn.attention import DistanceAwareAttention
    from fairseq_posattn.inference.trained_model import load
    from fairseq_posattn.inspection.attention_layers import choose, of_side

    model = load(path, args.data)
    chosen = choose(of_side(model, args.side), args.layers, args.sublayers)
    if drawn := [layer for layer in chosen if isinstance(layer.owner, DistanceAwareAttention)]:
        return drawn
    names = ", ".join(dict.fromkeys(layer.name for layer in chosen))
    fix = "choose others by --side, --layers or --sublayers; posattn look shows other mechanisms"
    raise UsageError(f"{path}: no DA among the chosen {args.side} sublayers, {names}; {fix}")


def write(numbers: dict[str, Any], args: argparse.Namespace) -> None:
    if args.json:
        write_json(args.json, {"checkpoint": args.checkpoint, **numbers})
