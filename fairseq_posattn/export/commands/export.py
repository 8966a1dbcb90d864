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
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.search_options import DECODING, add_search
from fairseq_posattn.text.lines import parallel_lines, read_file

# Those of fairseq's options that generation_config.json can say.
SEARCH = ("--beam", "--lenpen", "--max-len-b", "--min-len", "--no-repeat-ngram-size")
ONNX = ("onnx", "onnxruntime", "onnxscript")


def make_parser(prog=None):
    parser = cli.make_parser(__doc__, prog)
    parser.add_argument(
        "checkpoint",
        help="file that fairseq-train wrote, or its --save-dir: the best or else last of it",
    )
    parser.add_argument("folder", help="to write; it may be there if it is empty")
    cli.add_data(parser)
    parser.add_argument(
        "--onnx",
        action="store_true",
        help="also write model.onnx, of a classifier, or of the encoder of a model that writes, "
        "for batches and sentences of any size",
    )
    parser.add_argument(
        "--int8",
        action="store_true",
        help="also write model.int8.onnx, a classifier whose weights have 8 bits (a model that "
        "writes gets such weights once it is loaded, by in_int8); with --text, print how often "
        "they say what the model does, and how fast both are on this CPU",
    )
    parser.add_argument(
        "--text", metavar="FILE", help="plain text for that, a line or a pair with a TAB each"
    )
    parser.add_argument(
        "--labels",
        metavar="FILE",
        help="the right label of each line, or its translation: print accuracies or BLEU, too",
    )
    group = parser.add_argument_group("how generate() decodes, as fairseq-generate has it")
    add_search(group, DECODING, SEARCH)
    return parser


def main(arguments=None, prog=None):
    """Export; returns the exit status."""
    parser = make_parser(prog)
    args = parser.parse_args(arguments)
    if args.text and not args.int8:
        parser.error("--text is for --int8 to be compared on")
    if args.labels and not args.text:
        parser.error("--labels are those of --text")
    return cli.end(parser.prog, partial(export, args))


def export(args):
    """Write the folder and say what is in it."""
    graph = args.onnx or args.int8
    for package in ("transformers", "safetensors", *(ONNX if graph else ())):
        if find_spec(package) is None:
            raise UsageError(
                f"{package} is not installed: python -m pip install 'fairseq-posattn[export]'"
            )
    logging.disable(logging.INFO)  # fairseq tells of its dictionaries
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    from fairseq_posattn.export import checkpoint

    lines, labels = with_words(args.text, args.labels)
    names = [flag[2:].replace("-", "_") for flag in SEARCH]
    decoding = {name: getattr(args, name) for name in names}
    exported = checkpoint.export(args.checkpoint, args.folder, args.data, **decoding)
    print(
        f"{args.folder}: weights, configuration and tokeniser; its scores differ from those of "
        f"{args.checkpoint} by {exported.difference:.1g} at most"
    )
    if graph:
        write_graphs(args, exported, lines, labels)


def with_words(text, labels):
    """The lines of a file that have words, and those of the other that go with them; None of none.

    Raises:
        UsageError: one file has more lines than the other.
    """
    if labels is None:
        return text and [line for line in read_file(text) if line.strip()], None
    files = {f"--text {text}": text, f"--labels {labels}": labels}
    rows = parallel_lines(**{name: read_file(path) for name, path in files.items()})
    kept = [row for row in rows if row[0].strip()]
    return [line for line, _ in kept], [label for _, label in kept]


def write_graphs(args, exported, lines, labels):
    """Write the graphs beside the model, and say what they are worth."""
    from fairseq_posattn.export import onnx

    folder = Path(args.folder)
    writes = exported.model.config.is_encoder_decoder
    logging.disable(logging.WARNING)  # of what is not installed and not needed
    if args.onnx or not writes:
        difference = onnx.write(exported.model, folder)
        print(f"{folder / onnx.NAME}: differs from the model by {difference:.1g} at most")
    if args.int8 and not writes:
        onnx.quantise(folder)
        sizes = [(folder / name).stat().st_size / 1000 for name in (onnx.NAME, onnx.INT8)]
        print(f"{folder / onnx.INT8}: {sizes[1]:,.0f} kB, and {onnx.NAME} {sizes[0]:,.0f}")
    elif args.int8:
        print("int8: by fairseq_posattn.hugging_face.int8.in_int8(model), once it is loaded")
    if lines is not None:
        from fairseq_posattn.export import int8

        print(*int8.compare(exported, folder, lines, labels), sep="\n")
