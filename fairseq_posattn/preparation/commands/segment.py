"""Write the subwords of plain text, as in prepared data, or the plain text of subwords.

    %(prog)s data-bin/fr-en --side source < new.fr > new.spm.fr

reads standard input and writes a line for each: the tokens that the model of this folder reads, for
fairseq-interactive, fairseq-preprocess and other programs. --undo writes the plain text of such
lines, as of translations by fairseq-generate. A line ends with \\n or \\r\\n.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError, counted
from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.like import Template
from fairseq_posattn.text import plain_text
from fairseq_posattn.text.lines import file_lines
from fairseq_posattn.text.manifest import SIDES
from fairseq_posattn.text.subwords import whole_words


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    parser = cli.make_parser(__doc__, prog)
    about = "prepared folder, or a checkpoint or its folder"
    parser.add_argument("folder", metavar="FOLDER", help=about)
    about = "language of the text (default: %(default)s)"
    parser.add_argument("--side", choices=SIDES, default=SIDES[0], help=about)
    parser.add_argument("--undo", action="store_true", help="subwords to plain text")
    return cli.run(parser, segment, arguments)


def segment(args: Namespace) -> None:
    """Write the subwords, or the plain text, of each line of standard input."""
    template = Template(args.folder, option="")
    rules, language = template.rules, ""
    if rules.languages:
        language = rules.languages[SIDES.index(args.side)]
    elif args.side == "target":
        raise UsageError(f"--side target: {args.folder} has labels there, not text; leave it out")
    if args.undo:
        join = plain_text.joiner(rules, language)
        for line in file_lines("-", allow_empty=True):
            print(join(whole_words(line, rules.subwords)), flush=True)
        return
    split = plain_text.splitter(template.folder, replace(rules, longest=None), language)
    cut = 0
    for line in file_lines("-", allow_empty=True):
        tokens = split(line).split(" ")
        cut += len(tokens) > (rules.longest or len(tokens))
        print(*tokens[: rules.longest], flush=True)
    if cut:
        say(f"warning: {counted(cut, 'line')} cut to {rules.longest} subwords, as training text")
