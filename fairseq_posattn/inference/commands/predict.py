"""Label or score new text with a trained classifier.

    echo "A witty, seductive movie." | %(prog)s checkpoints/sst5/checkpoint_best.pt

reads a sentence a line, or a pair with a TAB between its sentences, and prints a line for each: the
most probable label and its probability, or the score; for a blank line a blank one. Lines that are
typed, or that another program writes now and then, are answered at once.

A tagger of semantic roles reads the places of a sentence's predicates, from 0, with commas between,
and behind a TAB the sentence:

    printf '2\\tMy cats love hats.\\n' | %(prog)s checkpoints/ewt/checkpoint_best.pt

and prints it with its roles in brackets:

    [ARG0 My cats] [V love] [ARG1 hats] .
"""

import contextlib
import logging
import sys
from functools import partial

from fairseq_posattn.common import cli
from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.stream import arriving_lines
from fairseq_posattn.text.words import RULES


def make_parser(prog=None):
    parser = cli.make_parser(__doc__, prog)
    parser.add_argument(
        "checkpoint",
        help="file that fairseq-train wrote, or its --save-dir: the best or else last of it",
    )
    parser.add_argument(
        "--input", default="-", metavar="FILE", help="text to read (default: standard input)"
    )
    cli.add_data(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help='print a JSON object a line: {"label": ..., "probabilities": {...}}, or "score" '
        "instead of the label",
    )
    parser.add_argument(
        "--props",
        metavar="GOLD",
        help="roles: tag the predicates of this props file, in the order of the --input, which is "
        "the .roles file beside it, and print what is predicted in the same format",
    )
    parser.add_argument(
        "--constrained-decoding",
        action="store_true",
        help="roles: find the best tags that go together, whatever the training had; without it as "
        "in training",
    )
    parser.add_argument(
        "--tokenizer",
        choices=("auto", "none", *RULES),
        default="auto",
        help="how to make words of a text: auto by the rule that the model's data was made by (it "
        "is in preparation.json there; else by Moses' rules, and into sentences if the model was "
        "trained on documents); none takes the words as they stand between spaces (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--batch-size",
        type=positive,
        default=64,
        metavar="N",
        help="texts that the model sees at once (default: %(default)s)",
    )
    parser.add_argument(
        "--buffer-size",
        type=positive,
        default=1024,
        metavar="N",
        help="lines to read, where they come fast, before the first is answered; those of like "
        "length share a batch (default: %(default)s)",
    )
    parser.add_argument("--cpu", action="store_true", help="leave the GPU alone")
    parser.add_argument(
        "--progress", action="store_true", help="show how many lines are done, and the rate"
    )
    return parser


def main(arguments=None, prog=None):
    """Predict; returns the exit status."""
    parser = make_parser(prog)
    args = parser.parse_args(arguments)  # first, so that --help needs no PyTorch
    return cli.end(parser.prog, partial(predict, args))


def predict(args):
    """Answer line by line, and tell how many of them were blank."""
    if blank := answer(args):
        said = "a blank line was" if blank == 1 else f"{blank:,} blank lines were"
        sys.stderr.write(f"{said} answered with a blank one\n")


def answer(args):
    """Answer line by line; returns how many of them were blank."""
    from tqdm import tqdm

    from fairseq_posattn.inference import prediction

    logging.disable(logging.INFO)  # fairseq tells of its dictionaries
    blank = 0
    with contextlib.ExitStack() as stack:
        file, name = sys.stdin.buffer, "standard input"
        if args.input != "-":
            file, name = stack.enter_context(open(args.input, "rb")), args.input
        device = "cpu" if args.cpu else None
        words = {"auto": None, "none": "spaces"}.get(args.tokenizer, args.tokenizer)
        predictor = prediction.load(args.checkpoint, args.data, words=words, device=device)
        is_classifier = isinstance(predictor, prediction.Predictor)
        if args.constrained_decoding:
            check_tagger(predictor, "--constrained-decoding")
            predictor.task.constrain()
        if is_classifier and words is None:
            predictor.words = RULES[predictor.rule_of_text()]
        bar = stack.enter_context(tqdm(disable=not args.progress, unit=" lines"))
        groups = arriving_lines(file.fileno(), args.buffer_size, name)
        answers = predictor.read_groups(groups, name, args.batch_size)
        if args.props:
            print_props(predictor, answers, args.props)
            return 0
        for predictions in answers:
            for found in predictions:
                print(found.as_json() if args.json else found)
            sys.stdout.flush()
            if warning := predictor.unknown.warning():
                sys.stderr.write(f"warning: {name}: {warning}\n")
            blank += predictions.count(prediction.NOTHING)
            bar.update(len(predictions))
    return blank


def check_tagger(predictor, option):
    """Raise UsageError where an option is for taggers only."""
    from fairseq_posattn.inference.role_prediction import RolePredictor

    if not isinstance(predictor, RolePredictor):
        raise UsageError(f"{option}: the checkpoint is no tagger of semantic roles")


def print_props(predictor, answers, gold):
    """Print what a tagger predicts as a props file, to be scored against ``gold``."""
    from fairseq_posattn.inference.role_prediction import RolePrediction, as_props
    from fairseq_posattn.text.props import read_props, write_props

    check_tagger(predictor, f"--props {gold}")
    predictions = (one for group in answers for one in group if isinstance(one, RolePrediction))
    sys.stdout.writelines(write_props(as_props(read_props(gold), predictions)))
