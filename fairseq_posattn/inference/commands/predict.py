"""Label or score new text with a trained classifier.

    echo "A witty, seductive movie." | %(prog)s checkpoints/sst5/checkpoint_best.pt

reads one sentence a line, or a pair separated by a TAB, and prints a line for each: the most
probable label and its probability, or the score; a blank line for a blank one, and for one that
cannot be read, with a warning. A line that is longer than the model reads is cut, with a warning.
Input is answered as it arrives, without buffering.

A tagger of semantic roles reads the positions of a sentence's predicates, from 0, separated by
commas, a TAB and the sentence. Positions count tokens: "don't" and "hats." are two each, but one
with --tokenizer spaces.

    printf '2\\tMy cats love hats.\\n' | %(prog)s checkpoints/ewt/checkpoint_best.pt

and prints it with its roles in brackets:

    [ARG0 My cats] [V love] [ARG1 hats] .
"""

import itertools
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.progress import say
from fairseq_posattn.inference import options
from fairseq_posattn.inference.stream import warn
from fairseq_posattn.text.props import read_props, write_props
from fairseq_posattn.text.words import RULES


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    parser = cli.make_parser(__doc__, prog)
    parser.add_argument("checkpoint", help="checkpoint of fairseq-train, or its folder")
    options.add_text(parser)
    about = 'print one JSON object a line: {"label": ..., "probabilities": {...}}, or "score"'
    about += ' instead of the label; roles: {"words": ..., "propositions": ...}'
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help=about)
    about = "roles: print the predictions in the format of this props file, whose predicates are "
    about += "those of --input, the .roles file beside it"
    form.add_argument("--props", metavar="GOLD", help=about)
    about = "roles: find the best valid BIO sequence (constrained Viterbi decoding); default: as "
    about += "in training"
    parser.add_argument("--constrained-decoding", action="store_true", help=about)
    about = "tokenization: auto is that of the training data (preparation.json; else Moses' rules, "
    about += "and sentence splitting for models of documents); none: the text is in the model's "
    about += "tokens or subwords, separated by spaces (default: %(default)s)"
    rules = ("auto", "none", *RULES)
    parser.add_argument("--tokenizer", choices=rules, default="auto", help=about)
    options.add_speed(parser, batch_size=64, buffer_size=1024)
    about = "show the number of lines done and the speed"
    parser.add_argument("--progress", action="store_true", help=about)
    return cli.run(parser, predict, arguments)


def predict(args: Namespace) -> None:
    """Predict line by line, and report the number of blank lines."""
    from tqdm import tqdm

    from fairseq_posattn.inference import prediction
    from fairseq_posattn.inference.role_prediction import as_props

    words = {"auto": None, "none": "spaces"}.get(args.tokenizer, args.tokenizer)
    blank = 0
    with options.answering(args) as (groups, name, out):
        device = "cpu" if args.cpu else None
        predictor = prediction.load(args.checkpoint, args.data, words=words, device=device)
        if isinstance(predictor, prediction.RolePredictor):
            if args.constrained_decoding:
                predictor.task.constrain()
        elif args.props or args.constrained_decoding:
            flag = "--props" if args.props else "--constrained-decoding"
            raise UsageError(f"{flag}: needs a tagger of semantic roles")
        elif words is None:
            predictor.words = RULES[predictor.rule_of_text()]
        elif args.tokenizer == "none":
            predictor.split = str
        with tqdm(disable=not args.progress) as bar:
            answers = predictor.read_groups(groups, name, args.batch_size)
            if args.props:  # to be scored against them
                gold, flat = read_props(args.props), itertools.chain.from_iterable(answers)
                roles = (result for result in flat if result != predictor.nothing)
                out.writelines(write_props(as_props(gold, roles)))
                warn_of_unknown(predictor, name)
                return
            for predictions in answers:
                for result in predictions:
                    print(result.as_json() if args.json else result, file=out)
                out.flush()
                warn_of_unknown(predictor, name)
                blank += predictions.count(predictor.nothing)
                bar.update(len(predictions))
    for message in predictor.notes.warnings(name):
        warn(message)
    blank -= predictor.notes.count("invalid")
    if blank:
        say(f"{counted(blank, 'blank line')} answered with a blank line")


def warn_of_unknown(predictor: Any, name: str) -> None:
    """Warn once if most words or subwords of the file ``name`` are unknown."""
    if warning := predictor.unknown.warning():
        warn(f"{name}: {warning}")
