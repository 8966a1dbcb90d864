"""Measured numbers stand in generated blocks only: a script wrote each score, time and size.

A number counts as measured if it has a decimal point, a unit of time or memory, a deviation or a
p. Versions, sections, sizes of models, the paper's numbers and rates in tables of settings do not.
"""

import re
from pathlib import Path

import pytest

from fairseq_posattn.recipes.papers import RECIPES
from tools.pages.command import pages, typed

ROOT = Path(__file__).parents[2]
# The changelog has earlier measurements.
PAGES = {str(page.relative_to(ROOT)): page for page in pages(ROOT) if page.name != "CHANGELOG.md"}
# Numbers that may be typed, by page and heading, or page and phrase, and why.
SECTIONS = {
    ("examples/distributed/README.md", "## Machines that leave and join"): "settings of others",
    ("docs/fused_attention.md", "## Counted: arithmetic"): "the sums stand beside the results",
    ("docs/fused_attention.md", "### What was tried"): "of kernels that were left, counted once",
}
PHRASES = {
    ("docs/classification.md", "more than 1%"): "a limit",
    ("docs/own_corpus.md", "99% of the lines"): "a limit",
    ("docs/safety.md", "128 MB"): "a limit",
    ("docs/safety.md", "256 MB"): "a limit, which is a setting",
    ("docs/safety.md", "32 MB"): "a limit",
    ("docs/safety.md", "it must be 2.10"): "a version",
    ("docs/platforms.md", "2.10 or newer"): "a version",
    ("docs/recipes.md", "90 seconds"): "a setting of submitit",
    ("examples/cspan/README.md", "400 MB"): "a size: vectors times features times bytes",
    ("examples/mtsa/README.md", "12 hours"): "the paper's",
    ("examples/mtsa/README.md", "20 hours"): "the paper's",
}

UNIT = r"(?:%|percent|points?|times|[mµnp]?s|seconds?|min|minutes?|hours?|days?|[KMG]B)"
MEASURED = re.compile(
    r"(?<![\w.#])\d[\d,]*\.\d+(?![\w.]*\d| million|[mM]\b)"  # but for versions, parameters
    rf"|(?<![\w.])(?!95%)\d[\d,.]* ?{UNIT}(?![\w-])|±|\bp [=<]"
)
CODE = re.compile(r"^```.*?^```$|^ {4}[^\n]*$|`[^`\n]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)
VERSION = re.compile(
    r"(?:Python|PyTorch|Triton|torch|fairseq(?:-fixed)?|fairscale|NC-SA|capabilit(?:y|ies)|sections?)"
    r"(?:,? (?:and |or |to )?\d[\d.]*)+|p < 0\.05"  # the level of significance
)
SETTINGS = re.compile(r"^ *\| (?:what )?\| (?:paper|full)\b.*\n(?: *\|.*\n)+", re.MULTILINE)
RATE = re.compile(r"(?<![\d.])(?:0\.\d+|1\.0)(?!\d)")


def typed_numbers(text, published=()):
    """Measured numbers of a page that are typed, each with its line."""
    text = CODE.sub("`", typed(text))
    text = VERSION.sub("", SETTINGS.sub(lambda table: RATE.sub("", table[0]), text))
    return [
        (number, line)
        for line in text.splitlines()
        for number in MEASURED.findall(line)
        if number not in published
    ]


def published_by(paper):
    """Return the numbers of a paper's recipes, as they are printed."""
    recipes = [recipe for recipe in RECIPES.values() if recipe.paper == paper]
    rows = [row for recipe in recipes for row in recipe.rows]
    return {number for row in rows for number in re.split("[ ±]", row.paper)}


def without_allowed(name, text):
    """Return a page without its allowed numbers, each of which must be in it."""
    for page, heading in SECTIONS:
        if page == name:
            before, separator, behind = text.partition(f"\n{heading}\n")
            assert separator, heading
            level = heading.partition(" ")[0]
            text = before + re.split(rf"\n(?=#{{1,{len(level)}}} )", behind, maxsplit=1)[-1]
    for page, phrase in PHRASES:
        if page == name:
            assert phrase in text, phrase
            text = text.replace(phrase, "")
    return text


@pytest.mark.parametrize("name", PAGES)
def test_no_measured_number_is_typed(name):
    text = without_allowed(name, PAGES[name].read_text(encoding="utf-8"))
    assert typed_numbers(text, published_by(PAGES[name].parent.name)) == []


@pytest.mark.parametrize(
    "line, numbers",
    [
        ("MPSAN reaches 90.3 percent.", ["90.3"]),
        ("90 ± 1 of accuracy", ["±"]),
        ("It trains for 22 min and takes 400 MB.", ["22 min", "400 MB"]),
        ("significant (p = 1e-3)", ["p ="]),
        ("Python 3.11 scores 37.76", ["37.76"]),
        ("| what | paper | here |\n|---|---|---|\n| LEAD-3 | - | 41.62 |", ["41.62"]),
        ("Python 3.10 to 3.13, PyTorch 2.13.0 and fairseq-fixed 0.12.3.1", []),
        ("sections 4.3, 4.4 of the paper, eq. 5", []),
        ("5,003,014 parameters, which are 5.0M", []),
        ("    --dropout 0.3", []),
        ("`--lr 0.5` for 10,000 updates of 4,096 tokens", []),
        ("its 95% bootstrap interval", []),
        ("| what | paper | here |\n|---|---|---|\n| dropout | not said | 0.2, 1.0 |", []),
        ("the paper's 36.35", []),
        ("<!-- block -->\n\n37.76 ± 0.1\n\n<!-- end of block -->", []),
    ],
)
def test_only_measured_numbers_are_reported(line, numbers):
    result = typed_numbers(f"A page\n\n{line}\n", published={"36.35"})
    assert [number for number, _ in result] == numbers
