"""The vocabulary of code and pages: the terms of the field, and docstrings that start with a verb.

ruff checks the form of docstrings; these lists have what it cannot know.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("fairseq_posattn", "tools", "benchmarks", "scripts", "examples", "tests")
# A paraphrase, and the term to write.
PARAPHRASES = {
    r"mend(s|ed|ing)?": "fix, patch",
    r"products? of matrices": "matmul",
    r"affine maps?": "linear layer, projection",
    r"joined heads": "concatenated heads",
    r"scores of all words": "logits",
    r"(beyond|within) chance": "significant, not significant",
    r"the (code|text)'s form": "released form, paper form",
    r"(would wait|waits for the (GPU|device))": "synchronization",
    r"of one's own": "custom",
    r"stor(ey|eys|ies of the house)": "level",
    r"what may be dropped": "dropout mask",
}
PARAPHRASE = re.compile(rf"\b({'|'.join(PARAPHRASES)})\b", re.IGNORECASE)
# Names that do not say what they hold; a flag is public.
VAGUE = re.compile(r"one|(?!dropout_places)(\w+_)?(place|given|found|told|asked|begun)s?(_\w+)?")
# First words of clauses that nobody writes as sentences.
CLAUSE = re.compile(r"(Of|What|Whether|How|Those|That|Which|By|Where|As|In place of)\b")
SENTENCE = re.compile(r"(?:^|[.:!?]\s+)(Of|What|Whether|Those|In place of)\s[^?]*?(?:[.!]|$)")


def files(*suffixes, folders=CODE):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path != Path(__file__):
                yield path


def pages():
    yield from sorted(ROOT.glob("*.md"))
    yield from files(".md", folders=("docs", "examples"))


def docstrings(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def prose(page):
    """Yield the paragraphs of a page outside code, tables and headings."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for paragraph in re.split(r"\n\s*\n", text):
        if not re.match(r"    |\||#|<|\[", paragraph):
            yield " ".join(paragraph.split())


def test_the_fields_terms_are_used():
    matches = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]!r}"
        for path in (*files(".py", ".sh", ".js", ".html", ".yaml"), *pages())
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (match := PARAPHRASE.search(line))
    ]
    assert not matches, f"{matches}; the terms are {PARAPHRASES}"


def test_docstrings_begin_with_a_verb_or_a_noun():
    matches = [
        f"{path.relative_to(ROOT)}:{number}: {text.splitlines()[0]}"
        for path in files(".py")
        for number, text in docstrings(path)
        if CLAUSE.match(text)
    ]
    assert not matches, "\n".join(matches)


def test_names_say_what_they_hold():
    vague = {
        f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {name}"
        for path in files(".py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (getattr(node, field, None) for field in ("id", "arg", "attr", "name"))
        if isinstance(name, str) and not name.startswith("test_") and VAGUE.fullmatch(name)
    }
    assert not vague, "\n".join(sorted(vague))


@pytest.mark.parametrize("page", list(pages()), ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_of_pages_are_no_clauses(page):
    assert not [text for text in prose(page) if SENTENCE.search(text)]
