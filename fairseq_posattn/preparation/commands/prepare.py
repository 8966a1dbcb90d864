"""``posattn prepare KIND DATASET ...``: the command line."""

import argparse

from fairseq_posattn.preparation.kinds import KINDS, prepare


def main(arguments=None, prog="posattn prepare"):
    parser = argparse.ArgumentParser(
        prog=prog,
        description="Prepare a published data set, or your own data, for training.",
        epilog=f"'{prog} KIND --help' lists the data sets of a kind.",
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for name, kind in KINDS.items():
        kinds.add_parser(name, add_help=False, help=f"{kind.summary} {', '.join(kind.corpora)}")
    options, rest = parser.parse_known_args(arguments)
    return prepare(options.kind, rest, f"{prog} {options.kind}", explains=True)
