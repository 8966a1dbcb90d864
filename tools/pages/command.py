"""Write the generated blocks of README.md, docs/ and examples/ from measured results.

    python scripts/fill_numbers.py               write them
    python scripts/fill_numbers.py --add FILE    first store the rows of a recipe's table
    python scripts/fill_numbers.py --check       fail if a page is out of date

FILE is the JSON file of a recipe's table, such as checkpoints/dman/iwslt14/iwslt14.json. Published
numbers come from the recipes, measured numbers from results/ (see results/README.md) and from the
Markdown that the programs in benchmarks/ write. A block is the text between two marks in a page,
<!-- NAME --> and <!-- end of NAME -->.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from fairseq_posattn.common.cli import make_parser
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_text
from fairseq_posattn.recipes.results import read
from tools.pages import findings, measurements, tables
from tools.pages.tables import Results, add

BLOCK = re.compile(
    r"^<!-- (?!end of )(.+?) -->\n(.*?)^<!-- end of \1 -->$", re.DOTALL | re.MULTILINE
)
MARK = re.compile(r"^<!-- .+ -->$", re.MULTILINE)
# The writers of blocks by name, and of blocks for one table, "KIND: TITLE".
BLOCKS = {"results": tables.write_all, **findings.BLOCKS, **measurements.BLOCKS}
OF_TABLES = {"table": tables.write_table, "line": tables.write_line}


def main(arguments: Sequence[str] | None, prog: str, root: Path) -> int:
    """Run the command line on the checkout ``root``; return the exit status."""
    parser = make_parser(__doc__, prog)
    about = (
        "JSON tables written by recipes (NAME.json in their --out); their measured rows replace "
        "those of the same table and name in results/"
    )
    parser.add_argument("--add", nargs="+", type=Path, default=[], metavar="FILE", help=about)
    parser.add_argument("--check", action="store_true", help="write no page; fail if one differs")
    parser.add_argument("--root", type=Path, default=root, help="the checkout (default: this one)")
    args = parser.parse_args(arguments)
    for path in args.add:
        add(path, results_of(args.root))
    results, old = results_of(args.root), []
    for page in pages(args.root):
        before = read(page)
        try:
            text = fill(before, lambda name: write(name, results))
        except UsageError as error:
            raise UsageError(f"{page}: {error}") from None
        if text == before:
            continue
        if args.check:
            old.append(str(page))
        else:
            write_text(page, text)
            print(f"wrote {page}")
    if old:
        raise UsageError(f"{', '.join(old)}: out of date; run {prog}")
    print("all pages are up to date")
    return 0


def results_of(root: Path) -> Results:
    """Return the measured results of a checkout."""
    return Results(root / "results", root / "benchmarks" / "results")


def pages(root: Path) -> list[Path]:
    """Return the pages that may have generated blocks."""
    globs = (root.glob("*.md"), (root / "docs").rglob("*.md"), root.glob("examples/**/*.md"))
    return [page for paths in globs for page in sorted(paths)]


def fill(text: str, write: Callable[[str], str]) -> str:
    """Return a page with the generated text of each block; the rest is unchanged.

    Raises:
        UsageError: a mark has no counterpart.
    """
    if single := MARK.search(typed(text)):
        raise UsageError(f"{single[0]}: this mark has no counterpart; add it or remove the mark")
    # The empty lines let Markdown read a table behind the mark.
    form = "<!-- {0} -->\n\n{1}\n\n<!-- end of {0} -->"
    return BLOCK.sub(lambda block: form.format(block[1], write(block[1]).strip()), text)


def typed(text: str) -> str:
    """Return the page without its generated blocks."""
    return BLOCK.sub("", text)


def write(name: str, results: Results) -> str:
    """Return the content of a block; raise UsageError if its name is unknown."""
    kind, _, title = name.partition(": ")
    if name in BLOCKS:
        return BLOCKS[name](results)
    if kind in OF_TABLES:
        return OF_TABLES[kind](title, results)
    known = ", ".join([*BLOCKS, *(f"{kind}: TITLE" for kind in OF_TABLES)])
    raise UsageError(f"{name}: unknown block; use one of: {known}")
