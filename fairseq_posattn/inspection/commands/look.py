"""Show the attention weights of sentences on a page in a browser.

    posattn look checkpoints/iwslt14/checkpoint_best.pt --sentences text.de --output page.html

translates or classifies each line of plain text, and writes a page. On it, choose a sentence, a
layer and a head, and point at a word to see its attention weights and the mechanism's parameters,
such as DMAN's mask or DA's function of distance. The page is one file and needs no network.

    posattn look checkpoints/sst5/checkpoint_best.pt --serve

serves the page to this machine alone, with a field to type into. It begins with the sentences, or
with a sentence of the test set that the data was prepared with.
"""

import argparse
import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.files import check_writable, write_text
from fairseq_posattn.inference.options import DECODING, add_model
from fairseq_posattn.inference.stream import LineNotes, warn
from fairseq_posattn.text.lines import file_lines, parallel_lines
from fairseq_posattn.text.plain_text import is_visible

if TYPE_CHECKING:
    from fairseq_posattn.inspection.page.view import View

PORT = 8000
MOST_WEIGHTS = 6_000_000  # on a page, about 20 MB


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    parser = cli.make_parser(__doc__, prog)
    about = "plain text, one sentence a line, or a pair separated by a TAB; - for standard input"
    parser.add_argument("--sentences", metavar="FILE", help=about)
    about = "translations of these sentences, one a line, to show instead of the model's"
    parser.add_argument("--targets", metavar="FILE", help=about)
    parser.add_argument("--output", metavar="FILE", help="page to write, such as page.html")
    about = f"serve the page at http://127.0.0.1:PORT until Ctrl-C (default: {PORT})"
    options: dict[str, Any] = {"type": cli.natural, "nargs": "?", "const": PORT, "help": about}
    parser.add_argument("--serve", metavar="PORT", **options)
    add_model(parser)
    cli.add_count(parser, "--beam", int(DECODING["beam"]), "beam size")
    return cli.run(parser, look, arguments)


def look(args: argparse.Namespace) -> None:
    if args.output is None and args.serve is None:
        raise argparse.ArgumentError(None, "--output, --serve: nothing to do; give one of them")
    if args.sentences is None and (args.output or args.targets):
        raise argparse.ArgumentError(None, "--output and --targets need --sentences FILE")
    from fairseq_posattn.inspection.page.server import HOST, LookServer, page
    from fairseq_posattn.inspection.page.view import open_view

    if args.output:
        check_writable(args.output, "--output")
    decoding = DECODING | {"beam": args.beam, "attention": None}
    shown = {"layers": args.layers, "names": args.sublayers}
    view = open_view(args.checkpoint, args.data, **shown, **decoding)
    if args.targets and not view.writes:
        raise UsageError(f"--targets {args.targets}: needs a model that translates")
    notes = view.notes()
    sentences = list(read_sentences(view, args, notes)) if args.sentences else []
    if warning := view.unknown.warning():
        warn(f"{args.sentences}: {warning}")
    for message in notes.warnings(args.sentences):
        warn(message)
    if args.output:
        text = page(view.description(), sentences)
        write_text(args.output, text)
        size = len(text.encode()) / 1000
        print(f"{args.output}: {counted(len(sentences), 'sentence')}, {size:,.0f} kB")
    if args.serve is not None:
        server = LookServer(view, sentences or view.example(), args.serve)
        with server, contextlib.suppress(KeyboardInterrupt):
            print(f"http://{HOST}:{server.server_port}/ until Ctrl-C", flush=True)
            server.serve_forever()


def read_sentences(view: "View", args: argparse.Namespace, notes: LineNotes) -> Iterator[Any]:
    """Yield the page's data of each line, until the page is full; add cut lines to ``notes``."""
    from tqdm import tqdm

    from fairseq_posattn.inspection.page.view import TooMuchError

    room, count = MOST_WEIGHTS, 0
    fix = "choose some with --layers and --sublayers"
    for number, text, target in tqdm(read_texts(args), disable=None, unit=" sentences"):
        try:
            sentence = view(text, target, room)
        except TooMuchError:
            if not count:
                large = f"its attention is too large for a page; {fix}"
                raise UsageError(f"{args.sentences}:{number}: {large}") from None
            warn(f"the page is full with {counted(count, 'sentence')}, before line {number}; {fix}")
            return
        except UsageError as error:
            raise UsageError(f"{args.sentences}:{number}: {error}") from None
        room -= sentence["size"]
        count += 1
        if "notice" in sentence:
            notes.add("cut", number)
        if "\t" in text.strip() and not (view.writes or view.takes_pairs):
            notes.add("tab", number)
        yield sentence
    if not count:
        raise UsageError(f"--sentences {args.sentences}: no sentences")


def read_texts(args: argparse.Namespace) -> Iterator[tuple[int, str, str | None]]:
    """Yield number, text and target of the lines that are not blank; without targets, None."""
    paths = {"--sentences": args.sentences, "--targets": args.targets}
    sides = {f"{option} {path}": file_lines(path) for option, path in paths.items() if path}
    for number, (text, *target) in enumerate(parallel_lines(**sides), start=1):
        if is_visible(text):
            yield number, text, target[0] if target else None
