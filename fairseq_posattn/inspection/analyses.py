"""The commands of ``posattn analysis``."""

import torch

from fairseq_posattn.attention import DistanceAwareAttention, DynamicMaskAttention
from fairseq_posattn.common import figures
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_json
from fairseq_posattn.inference.trained_model import TrainedModel, load
from fairseq_posattn.inspection import heatmap, inputs, measures, parameters, places
from fairseq_posattn.training.models.classifier import PosAttnClassifier

# The mechanism that each `parameters --plot` needs, and how its numbers are drawn.
PLOTS = {
    "weights": (DistanceAwareAttention, parameters.draw_weights),
    "curves": (DistanceAwareAttention, parameters.draw_curves),
    "matrices": (DistanceAwareAttention, parameters.draw_matrices),
    "mask": (DynamicMaskAttention, parameters.draw_masks),
}


def run_locality(args):
    trained, chosen = load_attention(args)
    texts = list(read_sentences(trained, args).values())
    rows = measures.locality(inputs.encoder_of(trained), chosen, texts, args.windows)
    write({"sentences": len(texts), "rows": rows}, args)
    print(f"% of attention within the window, mean of {len(texts)} sentences")
    print(measures.locality_table(rows))


def run_heatmap(args):
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


def run_parameters(args):
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
    mechanism, draw = PLOTS[args.plot]
    runs = []
    for path in args.checkpoint:
        trained = load(path, args.data, reads_data=args.split is not None)
        chosen = places.sublayer_places(trained, args.side)
        chosen = places.choose(chosen, args.layers, args.sublayers)
        runs.append([place for place in chosen if isinstance(place.owner, mechanism)])
        if not runs[-1]:
            names = ", ".join(dict.fromkeys(place.name for place in chosen))
            raise UsageError(
                f"--plot {args.plot}: needs {mechanism.__name__}, but the chosen {args.side} "
                f"sublayers of {path} are {names}"
            )
        if len(runs) > 1 and parameters.layout(runs[-1]) != parameters.layout(runs[0]):
            raise UsageError(
                f"{path}: layers, heads or mapping of DA differ from {args.checkpoint[0]}; name "
                "checkpoints of one model with several seeds"
            )
    if len(runs) == 1:
        [args.checkpoint] = args.checkpoint
    terms = None
    if has_sentences:
        texts = read_sentences(trained, args).values()
        terms = parameters.median_query_terms(inputs.encoder_of(trained), runs[0], texts)
    numbers = {
        "weights": lambda: parameters.weight_numbers(*runs),
        "curves": lambda: parameters.curve_numbers(runs[0], args.distance),
        "matrices": lambda: parameters.matrix_numbers(runs[0], args.distance + 1),
        "mask": lambda: parameters.mask_numbers(runs[0], args.distance, terms),
    }[args.plot]()
    write(numbers, args, lambda numbers: [draw(numbers)])


def run_cost(args):
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


def load_attention(args) -> tuple[TrainedModel, list[places.Place]]:
    """Return the model and the chosen places where its tokens attend to tokens."""
    trained = load(args.checkpoint, args.data, reads_data=args.split is not None)
    inputs.encoder_of(trained)
    return trained, places.choose(places.encoder_places(trained), args.layers, args.sublayers)


def read_sentences(trained: TrainedModel, args) -> dict:
    """Return the sentences that the options name, by line."""
    if args.split:
        return inputs.read_split(args.split, trained)
    inputs.encoder_of(trained)
    return inputs.read_file(args.sentences, trained)


def check_output(args):
    if not (args.output or args.json):
        raise UsageError("--output, --json: nothing to write; name a picture or a JSON file")
    figures.check_picture(args.output, " (or write the numbers alone, with --json)")


def write(numbers: dict, args, draw=None):
    """Write the pictures, of which there are several pages if they are large, and the numbers."""
    if draw and args.output:
        files = figures.write_pages(draw(numbers), args.output)
        if len(files) > 1:
            print(f"{len(files)} pictures: {files[0]} to {files[-1]}")
    if args.json:
        write_json(args.json, {"checkpoint": args.checkpoint, **numbers})


RUN = {"locality": run_locality, "heatmap": run_heatmap}
RUN |= {"parameters": run_parameters, "cost": run_cost}
