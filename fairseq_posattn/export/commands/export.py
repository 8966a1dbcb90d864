"""Export a trained model to a folder that Hugging Face's transformers loads.

    %(prog)s checkpoints/iwslt14/checkpoint_best.pt iwslt14-de-en

writes weights (safetensors), configuration, vocabulary, tokenizer and a model card of this plugin's
models that translate, summarize or classify, and of fairseq's Transformer. fairseq is not needed to
load it:

    import fairseq_posattn.hugging_face
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained("iwslt14-de-en")
    model = AutoModelForSeq2SeqLM.from_pretrained("iwslt14-de-en")

The exported model's scores are compared with the checkpoint's before the folder is kept.
"""

import logging
from argparse import ArgumentError, Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.options import (
    DECODING,
    EXPORTED,
    add_data,
    add_search,
    search_settings,
)
from fairseq_posattn.text.lines import parallel_lines, read_file

if TYPE_CHECKING:  # --help needs no PyTorch
    from fairseq_posattn.export.checkpoint import Exported

IN_INT8 = "the weights are float32; to run them in int8 on a CPU, call "
IN_INT8 += "fairseq_posattn.hugging_face.in_int8(model) after loading"
ONNX = ("onnx", "onnxruntime", "onnxscript")


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    parser = cli.make_parser(__doc__, prog)
    parser.add_argument("checkpoint", help="checkpoint of fairseq-train, or its folder")
    parser.add_argument("folder", help="folder to write, new or empty")
    add_data(parser)
    text = "also write model.onnx: a classifier, or a generation model's encoder, for any sizes"
    parser.add_argument("--onnx", action="store_true", help=text)
    text = "also write model.int8.onnx, an int8 classifier; of a generation model write the usual "
    text += "float32 weights, which in_int8 quantizes at load time. With --text, print agreement "
    text += "and speed in int8 on this CPU"
    parser.add_argument("--int8", action="store_true", help=text)
    text = "also write ctranslate2/, a generation model of san or rpr for CTranslate2"
    parser.add_argument("--ctranslate2", action="store_true", help=text)
    text = "plain text to compare on, one text a line or a pair separated by a TAB"
    parser.add_argument("--text", metavar="FILE", help=text)
    text = "correct label or translation of each line, to print accuracy or BLEU"
    parser.add_argument("--labels", metavar="FILE", help=text)
    group = parser.add_argument_group("default search of generate(), as in fairseq-generate")
    add_search(group, DECODING, EXPORTED)
    return cli.run(parser, export, arguments)


def export(args: Namespace) -> None:
    """Write the folder and print its contents."""
    for flag, other in (("text", "int8"), ("labels", "text")):
        if getattr(args, flag) and not getattr(args, other):
            raise ArgumentError(None, f"--{flag} needs --{other}")
    graph = args.onnx or args.int8
    needed = dict.fromkeys(("transformers", "safetensors", *(ONNX if graph else ())), "export")
    needed |= {"ctranslate2": "ctranslate2"} if args.ctranslate2 else {}
    for package, extra in needed.items():
        if find_spec(package) is None:
            fix = f"python -m pip install 'fairseq-posattn[{extra}]'"
            raise UsageError(f"{package} is not installed; {fix}")
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()
    from fairseq_posattn.export import checkpoint

    lines, labels = read_examples(args.text, args.labels)
    decoding = search_settings(args, EXPORTED)
    exported = checkpoint.export(args.checkpoint, args.folder, args.data, **decoding)
    folder = Path(args.folder)
    contents = f"{args.folder}: weights, configuration, tokenizer and model card"
    difference = f"those of {args.checkpoint} by at most {exported.difference:.1g}"
    print(f"{contents}; its scores differ from {difference}")
    if args.ctranslate2:
        from fairseq_posattn.export import ctranslate2

        if not exported.model.config.is_encoder_decoder:
            raise UsageError("--ctranslate2: needs a model that translates or summarizes")
        difference = f"differ from the model's by at most {ctranslate2.write(exported, folder):.1g}"
        print(f"{folder / ctranslate2.NAME}: its log-probabilities {difference}")
    if graph:
        write_graphs(args, exported, lines, labels)


def read_examples(
    text: str | None, labels: str | None
) -> tuple[list[str] | None, list[str] | None]:
    """Return the lines that have words, and their labels, of as many lines; None for no file."""
    if text is None:
        return None, None
    if labels is None:
        return [line for line in read_file(text) if line.strip()], None
    files = {f"--text {text}": text, f"--labels {labels}": labels}
    rows = parallel_lines(**{name: read_file(path) for name, path in files.items()})
    kept = [row for row in rows if row[0].strip()]
    return [line for line, _ in kept], [label for _, label in kept]


def write_graphs(
    args: Namespace, exported: "Exported", lines: list[str] | None, labels: list[str] | None
) -> None:
    """Write the graphs beside the model, and print their quality."""
    from fairseq_posattn.export import card, int8, onnx

    folder, is_generator = Path(args.folder), exported.model.config.is_encoder_decoder
    logging.disable(logging.WARNING)  # optional packages are missing
    if args.onnx or not is_generator:
        difference = onnx.write(exported.model, folder)
        print(f"{folder / onnx.NAME}: differs from the model by at most {difference:.1g}")
    if args.int8 and is_generator:
        card.add_section(folder, "In int8", [IN_INT8])
        print(f"{folder}: {IN_INT8}")
    elif args.int8:
        onnx.quantise(folder)
        sizes = [(folder / name).stat().st_size / 1000 for name in (onnx.NAME, onnx.INT8)]
        print(f"{folder / onnx.INT8}: {sizes[1]:,.0f} kB, and {onnx.NAME} {sizes[0]:,.0f}")
    if lines is not None:
        results = int8.compare(exported, folder, lines, labels)
        card.add_section(folder, "Measured at export", [f"- {line}" for line in results])
        print(*results, sep="\n")
