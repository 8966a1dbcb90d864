"""Serve trained models of translation by HTTP, in LibreTranslate's form.

    %(prog)s checkpoints/fr-en checkpoints/de-en

    curl localhost:5000/translate -d q='Guten Morgen!' -d source=de -d target=en

POST /translate takes q (a text or, in JSON, a list), source, target and alternatives; lines of a
text are translated one by one. GET /languages, /health and /metrics (for Prometheus) describe the
server. Requests that arrive together share a batch. An answer with status 400 says what is wrong,
408 that a request stopped half-way, 413 that it is too large, 429 that too many texts are waiting.

Several checkpoints of one model form an ensemble if colons separate them. The server has neither
encryption nor passwords: leave it on this machine, behind a server that has them.
"""

import os
import signal
import socket
import sys
from argparse import Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from types import FrameType

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference import options

NEEDED = ("starlette", "uvicorn")


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    parser = cli.make_parser(__doc__, prog)
    about = "checkpoints of fairseq-train, or folders of them, of different pairs of languages"
    parser.add_argument("checkpoints", nargs="+", metavar="CHECKPOINT", help=about)
    options.add_data(parser)
    about = "address of this machine to listen at (default: %(default)s; 0.0.0.0 for all)"
    parser.add_argument("--host", default="127.0.0.1", help=about)
    about = "port to listen at (default: %(default)s); 0 for a free one"
    parser.add_argument("--port", type=cli.natural, default=5000, metavar="N", help=about)
    cli.add_count(parser, "--batch-size", 32, "lines that are translated together, at most")
    about = "lines that may wait; further requests get 429, and one with more lines gets 413"
    cli.add_count(parser, "--max-waiting", 1024, about)
    cli.add_count(parser, "--max-body", 1 << 20, "bytes of a request; larger ones get 413")
    parser.add_argument("--cpu", action="store_true", help="run on the CPU")
    parser.add_argument("--int8", action="store_true", help="int8 inference on the CPU")
    options.add_search(parser.add_argument_group("decoding"), options.DECODING)
    return cli.run(parser, serve, arguments)


def serve(args: Namespace) -> None:
    """Load the models and answer requests until SIGTERM or SIGINT; a second one ends at once."""
    if missing := [name for name in NEEDED if find_spec(name) is None]:
        raise UsageError(f"needs {' and '.join(missing)}: pip install {' '.join(missing)}")
    with _listen(args.host, args.port) as listener:
        import uvicorn

        from fairseq_posattn.inference import translation
        from fairseq_posattn.inference.commands.translate import split_checkpoints
        from fairseq_posattn.inference.serving import Limits, application, languages_of

        settings = options.search_settings(args) | {"nbest": args.beam, "int8": args.int8}
        settings["device"] = "cpu" if args.cpu else None
        translators = [
            translation.load(split_checkpoints(checkpoints), args.data, **settings)
            for checkpoints in args.checkpoints
        ]

        class Server(uvicorn.Server):
            def handle_exit(self, sig: int, frame: FrameType | None) -> None:
                if self.should_exit:  # uvicorn would print tracebacks and wait for the translation
                    os._exit(128 + sig)
                super().handle_exit(sig, frame)

        app = application(translators, Limits(args.batch_size, args.max_waiting, args.max_body))
        # uvicorn raises the signal again that ended it.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        host, port = listener.getsockname()[:2]
        at = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        names = ", ".join("-".join(languages_of(translator)) for translator in translators)
        print(f"serving {names} at {at}", file=sys.stderr, flush=True)
        config = uvicorn.Config(app, log_level="warning", access_log=False)
        Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        reason = str(getattr(error, "strerror", error)).partition(" (")[0]
        raise UsageError(f"--host {host} --port {port}: {reason}; choose another") from None
