"""``posattn score bleu ...`` and so on."""

import argparse
from collections.abc import Sequence
from importlib import import_module

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError

KINDS = {
    "bleu": "BLEU, chrF, TER and COMET of translations",
    "rouge": "ROUGE of summaries",
    "labels": "accuracy and macro-F1 of labels",
    "srl": "F1 of semantic roles",
    "ranking": "AUC, MRR and nDCG of rankings",
}


def score(kind: str, arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    """Score by one of ``KINDS``; return the exit status."""
    command = import_module(f"{__package__}.{kind}")
    parser = command.parser(prog)
    options = parser.parse_args(arguments)

    def work() -> None:
        try:
            result = command.score(options)
        except argparse.ArgumentError as error:
            parser.error(str(error))
        except ImportError as error:
            raise UsageError(f"{error.name} is not installed; pip install {error.name}") from error
        result.print(options.json)

    return cli.end(parser.prog, work)


def main(arguments: Sequence[str] | None = None, prog: str = "posattn score") -> int:
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Score the output of a model.",
        epilog=f"'{prog} KIND --help' explains a score.",
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for name, about in KINDS.items():
        kinds.add_parser(name, add_help=False, help=about)
    options, rest = parser.parse_known_args(arguments)
    return score(options.kind, rest, f"{prog} {options.kind}")
