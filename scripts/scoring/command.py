"""The command line that both scores have in common."""

import argparse
import json
import sys
from pathlib import Path

from fairseq_posattn.errors import UsageError
from scoring.pairs import from_files, from_generated
from scoring.subwords import MARKS


def make_parser(description):
    """A parser with the options that say what is scored."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--generated",
        type=Path,
        metavar="FILE",
        help="what fairseq-generate printed, or its generate-test.txt; has the references, too",
    )
    parser.add_argument(
        "--hypotheses", type=Path, metavar="FILE", help="plain text to score instead, a line each"
    )
    parser.add_argument(
        "--references",
        type=Path,
        metavar="FILE",
        help="plain text, a line each; with --generated, to use instead of the references in there",
    )
    parser.add_argument(
        "--remove-bpe",
        choices=MARKS,
        default="auto",
        help="which marks of subwords to remove; auto goes by what there is (default: %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def read_pairs(parser, options):
    """What the options say is to be scored."""
    if (options.generated is None) == (options.hypotheses is None):
        parser.error("give either --generated FILE or --hypotheses FILE --references FILE")
    if options.generated is not None:
        return from_generated(options.generated, options.references, options.remove_bpe)
    if options.references is None:
        parser.error("--hypotheses needs --references FILE")
    return from_files(options.hypotheses, options.references, options.remove_bpe)


def describe(counts):
    """The counts of :meth:`scoring.pairs.Pairs.counts`, to read."""
    line = (
        f"{counts['scored']:,} hypotheses, {counts['missing']:,} of them missing and "
        f"{counts['empty']:,} empty, both scored as empty"
    )
    if counts["skipped"]:
        line += f"; {counts['skipped']:,} of the test set not there at all and not scored"
    return line


def run(parser, score, arguments=None):
    """Score what the command line names; returns the exit status.

    Args:
        score: called with the pairs and the options, returns what to print: an object for JSON and
            the lines to read.
    """
    options = parser.parse_args(arguments)
    try:
        result, lines = score(read_pairs(parser, options), options)
    except UsageError as error:
        return _fail(parser, error)
    except OSError as error:
        return _fail(parser, f"{error.filename or 'a file'}: {error.strerror or error}")
    except ImportError as error:
        return _fail(parser, f"{error.name} is not installed: pip install {error.name}")
    except KeyboardInterrupt:
        return 130
    print(json.dumps(result, indent=2) if options.json else "\n".join(lines))
    return 0


def _fail(parser, error):
    sys.stderr.write(f"{parser.prog.removesuffix('.py')}: error: {error}\n")
    return 1
