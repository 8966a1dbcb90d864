"""Write the numbers of README.md, docs/ and examples/ anew, from what was measured.

    python scripts/fill_numbers.py               write them
    python scripts/fill_numbers.py --add FILE    before that, keep what a recipe measured
    python scripts/fill_numbers.py --check       fail if a page is not as it should be

FILE is what a recipe calls the table that it kept, such as checkpoints/dman/iwslt14/iwslt14.json.
The papers' numbers are the recipes', ours those of the files in examples/results, which are what
the recipes write (README.md there describes them), and in benchmarks/results. What stands between
two marks in a page, <!-- NAME --> and <!-- end of NAME -->, is written here; nothing is typed.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from fairseq_posattn.common.cli import make_parser
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_text
from fairseq_posattn.recipes.results import read
from tools.pages import findings, kernels, marks, scale, speed, tables
from tools.pages.results import Results, add

# What is written, by the names of the places.
PLACES: dict[str, Callable[[Results], str]] = {
    "results": tables.all_tables,
    **findings.PLACES,
    **speed.PLACES,
    **kernels.PLACES,
    **scale.PLACES,
}
# And of a table by its title: the whole of it, or its scores in one line.
OF_TABLES: dict[str, Callable[[str, Results], str]] = {
    "table": tables.table_alone,
    "line": tables.line,
}


def main(arguments: Sequence[str] | None, prog: str, root: Path) -> int:
    """Do what the command line asks; returns the exit status.

    Args:
        root: the checkout, which has the pages and what was measured.
    """
    parser = make_parser(__doc__, prog)
    parser.add_argument(
        "--add",
        nargs="+",
        type=Path,
        default=[],
        metavar="FILE",
        help="tables that recipes kept, NAME.json in their --out: their measured rows go into "
        "examples/results, in the place of those of the same table and name",
    )
    parser.add_argument("--check", action="store_true", help="write no page")
    parser.add_argument("--root", type=Path, default=root, help="the checkout (default: this one)")
    args = parser.parse_args(arguments)
    for path in args.add:
        add(path, args.root / "examples" / "results")
    old = []
    for page, text in filled(args.root):
        if text == read(page):
            continue
        if args.check:
            old.append(str(page))
        else:
            write_text(page, text)
            print(f"wrote {page}")
    if old:
        raise UsageError(f"{', '.join(old)}: out of date: run {prog}")
    print("all pages are as they should be")
    return 0


def pages(root: Path) -> list[Path]:
    """Those that may have places."""
    return [
        *sorted(root.glob("*.md")),
        *(
            path
            for name in ("benchmarks", "docs", "examples")
            for path in sorted((root / name).rglob("*.md"))
        ),
    ]


def filled(root: Path) -> Iterator[tuple[Path, str]]:
    """All pages that have places, as they should be.

    Raises:
        UsageError: nothing is known of a place's name.
    """
    results = Results(root / "examples" / "results", root / "benchmarks" / "results")
    for page in pages(root):
        text = read(page)
        if marks.MARK.search(text):
            try:
                yield page, marks.fill(text, lambda name: write(name, results))
            except UsageError as error:
                raise UsageError(f"{page}: {error}") from None


def write(name: str, results: Results) -> str:
    """What a place should have."""
    if name in PLACES:
        return PLACES[name](results)
    kind, _, title = name.partition(": ")
    if kind not in OF_TABLES:
        known = ", ".join([*PLACES, *(f"{kind}: TITLE" for kind in OF_TABLES)])
        raise UsageError(f"there is no place {name!r}; the places are: {known}")
    return OF_TABLES[kind](title, results)
