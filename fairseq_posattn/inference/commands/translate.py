"""Translate plain text, a line at a time, with a trained model.

    echo "Guten Morgen!" | %(prog)s checkpoints/iwslt14/checkpoint_best.pt

reads a sentence a line and prints its translation; for a blank line a blank one. Sentences are made
words and pieces as the training data was, and what the model writes is made plain text again: by
preparation.json, beside the checkpoint or the data. Where that is not there, sentences are taken as
they stand, in pieces with spaces between, and so are translations. Lines that are typed, or that
another program writes now and then, are answered at once.

Several checkpoints of the same data are asked together, as an ensemble.

Translations can be told how to begin (--prefixes) and what to have in them (--constraints):

    printf 'Der Hund bellt.\\thound\\n' | %(prog)s CHECKPOINT --constraints
"""

import contextlib
import itertools
import logging
import sys
from functools import partial
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.cli import positive
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.search_options import DECODING, add_search, search_settings
from fairseq_posattn.inference.stream import arriving_lines, decode_lines, text_lines, warn
from fairseq_posattn.preparation.example import shortened


def make_parser(prog=None, about=__doc__, decoding=DECODING):
    parser = cli.make_parser(about, prog)
    parser.add_argument(
        "checkpoints",
        nargs="+",
        metavar="CHECKPOINT",
        help="files that fairseq-train wrote; several also with colons between",
    )
    parser.add_argument(
        "--input", default="-", metavar="FILE", help="text to read (default: standard input)"
    )
    cli.add_data(parser)
    parser.add_argument(
        "--json",
        action="store_true",
        help='print a JSON object a line: {"text": ..., "hypotheses": [{"text": ..., "score": ..., '
        '"pieces": ..., "attention": {"source": [words], "target": [words], "weights": [rows]}}, '
        "...]}",
    )
    parser.add_argument(
        "--attention",
        choices=("words", "pieces", "none"),
        default=decoding["attention"],
        help="in --json: how much each word of the translation, a row, attended to each word of "
        "the line and to its end, the columns, by the last layer of the decoder; the mean over "
        "heads and models. Or of pieces, as for languages without spaces (default: %(default)s)",
    )
    _add_decoding(parser.add_argument_group("decoding, as fairseq-generate has it"), decoding)
    parser.add_argument(
        "--batch-size",
        type=positive,
        default=128,
        metavar="N",
        help="lines that the model sees at once, at most (default: %(default)s)",
    )
    parser.add_argument(
        "--max-tokens",
        type=positive,
        default=8000,
        metavar="N",
        help="pieces that the model sees at once, at most, padding among them (default: "
        "%(default)s)",
    )
    parser.add_argument(
        "--buffer-size",
        type=positive,
        default=4096,
        metavar="N",
        help="lines to read, where they come fast, before the first is answered; those of like "
        "length share a batch (default: %(default)s)",
    )
    parser.add_argument("--cpu", action="store_true", help="leave the GPU alone")
    parser.add_argument(
        "--int8",
        action="store_true",
        help="on the CPU, multiply whole numbers of 8 bits: faster where models have some 512 "
        "features; some translations become others",
    )
    return parser


def _add_decoding(group, decoding):
    add_search(group, decoding)
    group.add_argument(
        "--nbest",
        type=positive,
        default=1,
        metavar="N",
        help="print so many hypotheses for each line, the best first, a line each; of a blank "
        "line one blank one (default: 1)",
    )
    forced = group.add_mutually_exclusive_group()
    forced.add_argument(
        "--prefixes",
        metavar="FILE",
        help="how translations begin, in whole words: a line for each line of the input, which may "
        "be blank",
    )
    group.add_argument(
        "--prefix-size",
        type=positive,
        metavar="N",
        help="take only the first N pieces of each prefix (default: all)",
    )
    forced.add_argument(
        "--constraints",
        nargs="?",
        const="ordered",
        choices=("ordered", "unordered"),
        help="take what comes after TABs in a line for words or phrases that its translation has "
        "in it, in their order or in any (default: ordered, if given)",
    )


def main(arguments=None, prog=None, about=__doc__, decoding=DECODING):
    """Translate, or summarise; returns the exit status."""
    parser = make_parser(prog, about, decoding)
    args = parser.parse_args(arguments)  # first, so that --help needs no PyTorch
    return cli.end(parser.prog, partial(translate, args))


def translate(args):
    """Answer line by line."""
    from tqdm import tqdm

    from fairseq_posattn.inference import translation

    logging.disable(logging.INFO)  # fairseq tells of its dictionaries
    with contextlib.ExitStack() as stack:
        file, name = sys.stdin.buffer, "standard input"
        if args.input != "-":
            file, name = stack.enter_context(open(args.input, "rb")), args.input
        if args.prefix_size and not args.prefixes:
            raise UsageError("--prefix-size: name the prefixes with --prefixes FILE")
        attention = args.attention if args.json and args.attention != "none" else None
        translator = translation.load(
            [path for given in args.checkpoints for path in split_checkpoints(given)],
            args.data,
            device="cpu" if args.cpu else None,
            attention=attention,
            int8=args.int8,
            **search_settings(args),
        )
        if translator.lines.manifest is None:
            warn(f"{args.checkpoints[0]}: its data has no preparation.json: text is taken as it is")
        is_typed = file.isatty() or not sys.stderr.isatty()
        bar = stack.enter_context(tqdm(disable=is_typed, unit=" lines"))
        groups, number = arriving_lines(file.fileno(), args.buffer_size, name), 0
        for texts, forced, wrong in requests(groups, name, args):
            translations = translator(texts, args.batch_size, args.max_tokens, **forced)
            for found in translations:
                answers = [one.text for one in found.hypotheses] or [""]
                print(*([found.as_json()] if args.json else answers), sep="\n")
            sys.stdout.flush()
            for row, found in enumerate(translations):
                if found.failed:
                    warn(f"{name}:{number + row + 1}: {unmet(texts[row], forced, row)}")
            number += len(texts)
            bar.update(len(texts))
            if warning := translator.lines.unknown.warning():
                warn(f"{name}: {warning}")
            if wrong:
                raise wrong
        translator.lines.warn_of_cut_lines(name)


def unmet(text, forced, row):
    """What there is to say of a line that has no translation as it should be.

    Args:
        text: of the line.
        forced: what translations of the lines must have, as the translator took it.
        row: of the line among them.
    """
    asked = ""
    if "constraints" in forced:
        asked = f" with {', '.join(map(shortened, forced['constraints'][row]))} in it"
    elif "prefixes" in forced:
        asked = f" that begins with {shortened(forced['prefixes'][row])}"
    return (
        f"answered with a blank line: no translation of {shortened(text)}{asked} was found within "
        "--max-len-a, --max-len-b and --no-repeat-ngram-size"
    )


def split_checkpoints(given):
    """The checkpoints of an argument: one, or several with colons between."""
    return [given] if Path(given).exists() else given.split(":")


def requests(groups, name, args):
    """What to translate, as it comes.

    Args:
        groups: of lines.
        name: of their file.

    Yields:
        texts; what their translations must have, as the translator takes it; and what is wrong with
        the line after them, or None.

    Raises:
        UsageError: there are more prefixes than lines.
    """
    number, prefixes = 0, text_lines(args.prefixes) if args.prefixes else None
    for lines in groups:
        texts, wrong = decode_lines(lines, name, number)
        number += len(lines)
        forced = {}
        if args.constraints:
            parts = [text.split("\t") for text in texts]
            texts = [text for text, *_ in parts]
            forced = {"constraints": [words for _, *words in parts]}
        elif prefixes:
            forced = {"prefixes": list(itertools.islice(prefixes, len(texts)))}
            if len(forced["prefixes"]) < len(texts):
                texts = texts[: len(forced["prefixes"])]
                wrong = UsageError(f"{args.prefixes}: has fewer lines than {name}")
        yield texts, forced, wrong
    if prefixes and next(prefixes, None) is not None:
        raise UsageError(f"{args.prefixes}: has more lines than {name}")
