"""The commands of ``posattn analysis``."""

import torch
from fairseq.models import FairseqEncoder

from fairseq_posattn.attention import DistanceAwareAttention, DynamicMaskAttention
from fairseq_posattn.common import figures
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import check_writable, write_json
from fairseq_posattn.inference.trained_model import TrainedModel, load
from fairseq_posattn.inspection import (
    cost,
    distance_weights,
    dynamic_mask,
    heatmap,
    locality,
    rescaling_curves,
    rescaling_matrices,
    sentences,
)
from fairseq_posattn.inspection.sublayers import (
    AttentionSublayer,
    choose,
    choose_heads,
    sublayers_of,
)
from fairseq_posattn.model.classifier import SentenceEncoder

# The mechanism that each `parameters --plot` needs.
MECHANISMS = {
    "weights": DistanceAwareAttention,
    "curves": DistanceAwareAttention,
    "matrices": DistanceAwareAttention,
    "mask": DynamicMaskAttention,
}


def run_locality(args):
    check_json(args)
    trained = load(args.checkpoint, args.data, reads_data=args.split is not None)
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
    trained = load(args.checkpoint, args.data, reads_data=args.split is not None)
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
        raise UsageError(
            "--sentences, --split: only for --plot mask of the encoder; leave them out"
        )
    if args.plot == "weights":
        show_weights(args)
        return
    if len(args.checkpoint) > 1:
        raise UsageError(
            f"--plot {args.plot}: takes one checkpoint; only --plot weights takes several"
        )
    [args.checkpoint] = args.checkpoint
    trained = load(args.checkpoint, args.data, reads_data=args.split is not None)
    sublayers = sublayers_with_plot(chosen_sublayers(trained, args), args, trained.path)
    if args.plot == "curves":
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


def show_weights(args):
    """Write w and v of a checkpoint, or the means of sorted values over several."""
    runs = []
    for path in args.checkpoint:
        sublayers = chosen_sublayers(load(path, args.data), args)
        runs.append(sublayers_with_plot(sublayers, args, path))
        if distance_weights.layout(runs[-1]) != distance_weights.layout(runs[0]):
            raise UsageError(
                f"{path}: layers, heads or mapping of DA differ from {args.checkpoint[0]}; name "
                "checkpoints of one model with several seeds"
            )
    if len(runs) == 1:
        [args.checkpoint] = args.checkpoint
    write(distance_weights.weight_numbers(*runs), distance_weights.draw_weights, args)


def run_cost(args):
    check_json(args)
    trained = load(args.checkpoint, args.data, reads_data=args.split is not None)
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
    print(f"{args.split}, batches of {args.batch_size}: {numbers['inference_s']:.2f} seconds")
    print(
        f"{cost.SENTENCES} sentences of {cost.WORDS} words, forward and backward: "
        f"{numbers['memory_mb']:.0f} MB"
    )


def chosen_sublayers(trained: TrainedModel, args) -> list[AttentionSublayer]:
    side = getattr(args, "side", "encoder")
    return choose(sublayers_of(trained, side), args.layers, args.sublayers)


def encoder_of(trained: TrainedModel) -> FairseqEncoder | SentenceEncoder:
    """Return the encoder if sentences are its only input.

    A tagger also needs predicates, a recommender clicks.
    """
    encoder = getattr(trained.model, "encoder", None)
    if not isinstance(encoder, FairseqEncoder | SentenceEncoder):
        raise UsageError(
            f"{trained.path}: a {type(trained.model).__name__} needs more input than sentences; "
            "only its parameters can be shown, without sentences"
        )
    return encoder


def sublayers_with_plot(
    sublayers: list[AttentionSublayer], args, path: str
) -> list[AttentionSublayer]:
    mechanism = MECHANISMS[args.plot]
    having = [sublayer for sublayer in sublayers if isinstance(sublayer.mechanism, mechanism)]
    if not having:
        names = ", ".join(dict.fromkeys(sublayer.name for sublayer in sublayers))
        raise UsageError(
            f"--plot {args.plot}: needs {mechanism.__name__}, but the chosen {args.side} sublayers "
            f"of {path} are {names}"
        )
    return having


def read_sentences(trained: TrainedModel, args) -> dict:
    """Return the sentences that the options name, by line."""
    task, encoder = trained.task, encoder_of(trained)
    name = f"--split {args.split}" if args.split else f"--sentences {args.sentences}"
    if args.split:
        texts = sentences.read_split(args.split, task)
    else:
        texts = sentences.read_file(args.sentences, task)
    if "line" in args:
        if args.line not in texts:
            source = args.split or args.sentences
            raise UsageError(
                f"--line {args.line}: {source} has no sentence there; its last line is {max(texts)}"
            )
        texts = {args.line: texts[args.line]}
    sentences.check_lengths(texts, encoder.max_positions(), name)
    if not args.split:
        sentences.warn_of_unknown_tokens(texts, task.source_dictionary.unk())
    return texts


def check_outputs(args):
    if not (args.output or args.json):
        raise UsageError("--output, --json: nothing to write; name a picture or a JSON file")
    figures.check_picture(args.output, " (or write the numbers alone, with --json)")
    check_json(args)


def check_json(args):
    if args.json:
        check_writable(args.json, "--json")


def write(numbers: dict, draw, args):
    """Write the picture and its numbers."""
    if args.output:
        figures.write_picture(draw(numbers), args.output)
    if args.json:
        write_json(args.json, {"checkpoint": args.checkpoint, **numbers})


RUN = {
    "locality": run_locality,
    "heatmap": run_heatmap,
    "parameters": run_parameters,
    "cost": run_cost,
}
