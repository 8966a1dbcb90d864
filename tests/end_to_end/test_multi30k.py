"""Multi30k from published archives to the score of a model.

What it shares with other recipes is tested in test_recipes.py.
"""

import gzip
import itertools
import json

import pytest

PUBLISHED = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
LANGUAGES = ("de", "en")
SIZES = {"train": 400, "valid": 20, "test": 20}

SUBJECTS = {"Ein Mann": "A man", "Eine Frau": "A woman", "Das Kind": "The child", "Er": "He"}
VERBS = {"sieht": "sees", "malt": "paints", "kauft": "buys", "trägt": "carries"}
THINGS = {"einen Ball": "a ball", "das Haus": "the house", "zwei Hüte": "two hats"}
ENDS = {", dann noch mehr.": ", then more.", ' "heute".': ' "today".', "!": "!"}


def captions():
    """All sentences that the words above make, as pairs."""
    parts = itertools.product(*(words.items() for words in (SUBJECTS, VERBS, THINGS, ENDS)))
    for subject, verb, thing, end in parts:
        yield tuple(f"{subject[i]} {verb[i]} {thing[i]}{end[i]}" for i in range(2))


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """A folder with the six compressed files."""
    folder = tmp_path_factory.mktemp("published")
    pairs = itertools.cycle(captions())
    for split, size in SIZES.items():
        sides = zip(*itertools.islice(pairs, size), strict=True)
        for language, lines in zip(LANGUAGES, sides, strict=True):
            text = "".join(f"{line}\n" for line in lines)
            path = folder / f"{PUBLISHED[split]}.{language}.gz"
            path.write_bytes(gzip.compress(text.encode("utf-8"), mtime=0))
    return folder


@pytest.fixture
def folder(tmp_path):
    """A folder with a space in its name."""
    folder = tmp_path / "with a space"
    folder.mkdir()
    return folder


@pytest.fixture
def small(recipe_run, folder):
    """Run the recipe's small form in there; return all that it says."""

    def small(*arguments, **options):
        own = ["--small", "--data", folder / "data", "--out", folder / "out"]
        return recipe_run("multi30k/run", *own, *arguments, **options)

    return small


def test_from_archives_to_a_score(small, folder, published):
    sizes = [
        (f"--{side}-layers", "1", f"--{side}-embed-dim", "16") for side in ("encoder", "decoder")
    ]
    tiny = [*itertools.chain(*sizes), "--max-tokens", "400", "--num-workers", "0"]
    arguments = ["--source", published, "--rows", "DMAN", "--gpus", "0", "--max-update", "5"]
    assert "| DMAN " in small(*arguments, "--", *tiny)

    text = (folder / "data" / "text" / "train.de").read_text(encoding="utf-8").splitlines()
    assert text[0] == "ein mann sieht einen ball , dann noch mehr ."
    rows = json.loads((folder / "out" / "run.json").read_text())["rows"]
    (dman,) = (row for row in rows if row.get("seeds"))
    assert (dman["row"], dman["table"].split(",")[0]) == ("DMAN", "First models")
    assert dman["command"].endswith(f" multi30k/run --small --max-update 5 -- {' '.join(tiny)}")
    assert (dman["seeds"], dman["updates"]) == ([1], 5)
    assert dman["data"] == "multi30k-4000, --data data, 20 sentences of the test set"
    assert "tok:none" in dman["signature"]
    assert 0 <= dman["scores"]["bleu"][0] <= 100
    (kept,) = (folder / "out").glob("*/seed1/statistics.json")
    statistics = json.loads(kept.read_text())["metrics"]
    assert {name: len(rows) for name, rows in statistics.items()} == dict.fromkeys(
        ("bleu", "chrf2", "ter"), 20
    )


def test_dry_run_writes_nothing(small, folder):
    lines = small("--dry-run").splitlines()
    programs = [line.split()[:2] for line in lines if line.startswith(("fairseq-", "posattn "))]
    row = ["fairseq-train", "average", "fairseq-generate", "score"]
    names = [words[0] if words[0] != "posattn" else words[1] for words in programs]
    assert names == ["prepare", *row, *row, *row]
    assert list(folder.iterdir()) == []
