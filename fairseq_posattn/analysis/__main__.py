"""``python -m fairseq_posattn.analysis``: look into a trained model."""

import argparse
import logging

import torch
from fairseq.models import FairseqEncoder

from fairseq_posattn import picture
from fairseq_posattn.analysis import (
    cost,
    distance_weights,
    dynamic_mask,
    heatmap,
    locality,
    rescaling_curves,
    rescaling_matrices,
    sentences,
)
from fairseq_posattn.analysis.sublayers import (
    AttentionSublayer,
    choose,
    choose_heads,
    sublayers_of,
)
from fairseq_posattn.attention import DistanceAwareAttention, DynamicMaskAttention
from fairseq_posattn.commands import add_data, name_list, number_list, positive
from fairseq_posattn.errors import UsageError
from fairseq_posattn.files import check_writable, write_json
from fairseq_posattn.networks.classifier import SentenceEncoder
from fairseq_posattn.trained_model import TrainedModel, load

# What `parameters --plot` shows, and the mechanism that has it.
PLOTS = {
    "weights": ("DA's w and v of each head, sorted", DistanceAwareAttention),
    "curves": ("DA's function of distance for each head", DistanceAwareAttention),
    "matrices": ("DA's coefficients over a sentence for each head", DistanceAwareAttention),
    "mask": ("DMAN's mask by distance for each head", DynamicMaskAttention),
}


def build_parser(prog: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog or "python -m fairseq_posattn.analysis",
        description="Look into a trained model. Layers, heads and lines are counted from 1.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    add_locality(commands)
    add_heatmap(commands)
    add_parameters(commands)
    add_cost(commands)
    return parser


def add_locality(commands):
    parser = commands.add_parser(
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
        type=number_list,
        default=[1, 2, 4],
        metavar="W,...",
        help="how many tokens each way (default: 1,2,4)",
    )
    add_json(parser)
    parser.set_defaults(run=run_locality)


def add_heatmap(commands):
    parser = commands.add_parser(
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
    parser.set_defaults(run=run_heatmap)


def add_parameters(commands):
    parser = commands.add_parser(
        "parameters",
        help="what a model has learned about distance, as a picture",
        description="Draw learned parameters of DA or DMAN. No sentences are needed; with some, "
        "DMAN's mask is that of their median query. Of a recommender, words.da and clicks.da are "
        "the sublayers of its two levels.",
    )
    add_model(parser)
    parser.add_argument(
        "--plot",
        required=True,
        choices=PLOTS,
        help="; ".join(f"{name}: {what}" for name, (what, _) in PLOTS.items()),
    )
    parser.add_argument(
        "--side",
        choices=("encoder", "decoder"),
        default="encoder",
        help="of the model (default: %(default)s)",
    )
    parser.add_argument(
        "--distance",
        type=positive,
        default=20,
        metavar="N",
        help="furthest distance that is shown, in tokens (default: %(default)s)",
    )
    add_sentences(parser, required=False)
    add_output(parser)
    add_json(parser)
    parser.set_defaults(run=run_parameters)


def add_cost(commands):
    parser = commands.add_parser(
        "cost",
        help="what a classifier costs: seconds of inference, memory of an update",
        description="Measure a classifier as MTSA's Table 1 does: the mean time of a pass over a "
        f"split, and the memory that {cost.SENTENCES} made-up sentences of {cost.WORDS} words take "
        "in the encoder, forward and backward. On the GPU, if there is one.",
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
    parser.set_defaults(run=run_cost)


def add_checkpoint(parser):
    parser.add_argument("checkpoint", help="of fairseq-train, as checkpoints/checkpoint_best.pt")
    add_data(parser)


def add_model(parser):
    add_checkpoint(parser)
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


def run_locality(args):
    check_json(args)
    trained = load(args.checkpoint, args.data)
    sublayers = chosen_sublayers(trained, args)
    texts = list(read_sentences(trained, args).values())
    attention = locality.locality(encoder_of(trained), sublayers, texts, args.windows)
    rows = locality.locality_rows(sublayers, args.windows, attention)
    if args.json:
        numbers = {"checkpoint": args.checkpoint, "sentences": len(texts), "rows": rows}
        write_json(args.json, numbers)
    print(f"% of attention within the window, mean of {len(texts)} sentences")
    print(locality.locality_table(rows))


def run_heatmap(args):
    check_outputs(args)
    trained = load(args.checkpoint, args.data)
    sublayers = chosen_sublayers(trained, args)
    heads = choose_heads(sublayers, args.heads)
    (sentence,) = read_sentences(trained, args).values()
    labels = sentences.token_labels(sentence, trained.task.source_dictionary)
    numbers = heatmap.attention_numbers(encoder_of(trained), sublayers, heads, sentence, labels)
    write(numbers, heatmap.draw_attention, args)


def run_parameters(args):
    check_outputs(args)
    has_sentences = args.sentences or args.split
    if has_sentences and (args.plot != "mask" or args.side != "encoder"):
        raise UsageError("sentences are only for --plot mask of the encoder: leave them out")
    trained = load(args.checkpoint, args.data)
    sublayers = sublayers_with_plot(chosen_sublayers(trained, args), args)
    if args.plot == "weights":
        write(distance_weights.weight_numbers(sublayers), distance_weights.draw_weights, args)
    elif args.plot == "curves":
        numbers = rescaling_curves.curve_numbers(sublayers, args.distance)
        write(numbers, rescaling_curves.draw_curves, args)
    elif args.plot == "matrices":
        numbers = rescaling_matrices.matrix_numbers(sublayers, args.distance + 1)
        write(numbers, rescaling_matrices.draw_matrices, args)
    else:
        terms = None
        if has_sentences:
            texts = read_sentences(trained, args).values()
            terms = dynamic_mask.median_query_terms(encoder_of(trained), sublayers, texts)
        numbers = dynamic_mask.mask_numbers(sublayers, args.distance, terms)
        write(numbers, dynamic_mask.draw_masks, args)


def run_cost(args):
    check_json(args)
    trained = load(args.checkpoint, args.data)
    on_gpu = torch.cuda.is_available() and not args.cpu
    device = torch.device("cuda" if on_gpu else "cpu")
    model = cost.require_classifier(trained.model, args.checkpoint).to(device)
    numbers = {
        "inference_s": cost.inference_seconds(
            model, trained.task, args.split, args.batch_size, device
        ),
        "memory_mb": cost.update_megabytes(model, device),
    }
    if args.json:
        gpu = torch.cuda.get_device_name(device) if on_gpu else None
        write_json(args.json, {"checkpoint": args.checkpoint, **numbers, "gpu": gpu})
    print(f"{args.split}, {args.batch_size} at a time: {numbers['inference_s']:.2f} seconds")
    print(
        f"{cost.SENTENCES} sentences of {cost.WORDS} words, forward and backward: "
        f"{numbers['memory_mb']:.0f} MB"
    )


def chosen_sublayers(trained: TrainedModel, args) -> list[AttentionSublayer]:
    side = getattr(args, "side", "encoder")
    return choose(sublayers_of(trained, side), args.layers, args.sublayers)


def encoder_of(trained: TrainedModel) -> FairseqEncoder | SentenceEncoder:
    """What is given sentences and no more; a tagger is told the predicate, a recommender clicks."""
    encoder = getattr(trained.model, "encoder", None)
    if not isinstance(encoder, FairseqEncoder | SentenceEncoder):
        raise UsageError(
            f"{trained.path} is a {type(trained.model).__name__}, which encodes more than a "
            "sentence: only its parameters can be shown, without sentences"
        )
    return encoder


def sublayers_with_plot(sublayers: list[AttentionSublayer], args) -> list[AttentionSublayer]:
    what, mechanism = PLOTS[args.plot]
    having = [sublayer for sublayer in sublayers if isinstance(sublayer.mechanism, mechanism)]
    if not having:
        names = ", ".join(dict.fromkeys(sublayer.name for sublayer in sublayers))
        raise UsageError(
            f"--plot {args.plot} shows {what}, which those chosen of the {args.side} of "
            f"{args.checkpoint} lack: {names}"
        )
    return having


def read_sentences(trained: TrainedModel, args) -> dict:
    """The sentences that are asked for, by line."""
    task, encoder = trained.task, encoder_of(trained)
    if args.split:
        found = sentences.read_split(args.split, task)
    else:
        found = sentences.read_file(args.sentences, task)
    if "line" in args:
        if args.line not in found:
            source = args.split or args.sentences
            raise UsageError(
                f"--line {args.line}: {source} has no sentence there; its last is on {max(found)}"
            )
        found = {args.line: found[args.line]}
    sentences.check_lengths(found, encoder.max_positions())
    sentences.warn_of_unknown_tokens(found, task.source_dictionary.unk())
    return found


def check_outputs(args):
    if not (args.output or args.json):
        raise UsageError("nothing to write: name a picture with --output, or a file with --json")
    picture.check_picture("--output", args.output, " (or write the numbers alone, with --json)")
    check_json(args)


def check_json(args):
    if args.json:
        check_writable(args.json, "--json")


def write(numbers: dict, draw, args):
    """The picture and the numbers in it, as asked for."""
    if args.output:
        picture.write_picture(draw(numbers), args.output)
    if args.json:
        write_json(args.json, {"checkpoint": args.checkpoint, **numbers})


def main(arguments: list[str] | None = None, prog: str | None = None):
    logging.root.setLevel(logging.WARNING)  # fairseq tells what it reads
    args = build_parser(prog).parse_args(arguments)
    args.run(args)


if __name__ == "__main__":
    main()
