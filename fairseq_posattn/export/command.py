"""Take a trained model out of fairseq: a folder that Hugging Face's transformers loads.

    %(prog)s checkpoints/iwslt14/checkpoint_best.pt iwslt14-de-en

writes weights (safetensors), configuration, vocabulary and tokeniser of a model that translates,
summarises or classifies. Where it is used, fairseq need not be installed:

    import fairseq_posattn.hugging_face
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("iwslt14-de-en")
    model = AutoModelForSeq2SeqLM.from_pretrained("iwslt14-de-en")

What it scores is held against the checkpoint before anything is left behind.
"""

import logging
import sys
from functools import partial
from importlib.util import find_spec

from fairseq_posattn import commands
from fairseq_posattn.errors import UsageError
from fairseq_posattn.translation_command import DECODING, add_search

# Those of fairseq's options that generation_config.json can say.
SEARCH = ("--beam", "--lenpen", "--max-len-b", "--min-len", "--no-repeat-ngram-size")


def make_parser(prog=None):
    parser = commands.make_parser(__doc__, prog)
    parser.add_argument("checkpoint", help="file that fairseq-train wrote")
    parser.add_argument("folder", help="to write; it may be there if it is empty")
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="binarised data whose dictionaries and preparation.json to use (default: beside the "
        "checkpoint, or where they were in training)",
    )
    group = parser.add_argument_group("how generate() decodes, as fairseq-generate has it")
    add_search(group, DECODING, SEARCH)
    return parser


def main(arguments=None, prog=None):
    """Export; returns the exit status."""
    parser = make_parser(prog)
    args = parser.parse_args(arguments)
    return commands.end(parser.prog, partial(export, args))


def export(args):
    """Write the folder and say what is in it."""
    for package in ("transformers", "safetensors"):
        if find_spec(package) is None:
            raise UsageError(
                f"{package} is not installed: python -m pip install 'fairseq-posattn[export]'"
            )
    logging.disable(logging.INFO)  # fairseq tells of its dictionaries
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    from fairseq_posattn.export import checkpoint

    names = [flag[2:].replace("-", "_") for flag in SEARCH]
    decoding = {name: getattr(args, name) for name in names}
    exported = checkpoint.export(args.checkpoint, args.folder, args.data, **decoding)
    print(
        f"{args.folder}: weights, configuration and tokeniser; its scores differ from those of "
        f"{args.checkpoint} by {exported.difference:.1g} at most"
    )


if __name__ == "__main__":
    sys.exit(main())
