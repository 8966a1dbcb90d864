"""examples/multi30k/run.sh from published archives to the score of both models.

What it shares with other recipes is tested in test_recipes.py.
"""

import gzip
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parents[2] / "examples" / "multi30k" / "run.sh"
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
def run(tmp_path):
    """Run the recipe in a folder with a space in its name; return all that it says."""
    folder = tmp_path / "with a space"
    folder.mkdir()

    def run(*arguments, exit_code=0):
        finished = subprocess.run(
            ["bash", RUN, "--small", "--data", "data", "--out", "out", *map(str, arguments)],
            cwd=folder,
            env={
                "POSATTN_ENV": sys.prefix,
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PIP_NO_INDEX": "1",  # the environment of these tests is complete, or they fail
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert finished.returncode == exit_code, finished.stdout
        return finished.stdout

    run.folder = folder
    return run


def test_from_archives_to_a_score(run, published):
    sizes = [
        (f"--{side}-layers", "1", f"--{side}-embed-dim", "16") for side in ("encoder", "decoder")
    ]
    tiny = [*itertools.chain(*sizes), "--max-tokens", "400", "--num-workers", "0"]
    arguments = ["--source", published, "--rows", "DMAN", "--gpus", "0", "--max-update", "5"]
    assert "| DMAN " in run(*arguments, "--", *tiny)

    text = (run.folder / "data" / "text" / "train.de").read_text(encoding="utf-8").splitlines()
    assert text[0] == "ein mann sieht einen ball , dann noch mehr ."
    _, dman = json.loads((run.folder / "out" / "run.json").read_text())["rows"]
    assert dman["table"].endswith("small models")
    assert (dman["seeds"], dman["updates"]) == ([1], 5)
    assert dman["data"].endswith("20 sentences of the test set")
    assert "tok:none" in dman["signature"]
    assert 0 <= dman["scores"]["bleu"][0] <= 100


def test_a_damaged_archive_is_one_line(run, published, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for path in published.iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    damaged = source / "val.en.gz"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    *_, line = run("--source", source, exit_code=1).splitlines()
    assert line.startswith(f"prepare_translation: error: {damaged}: damaged or cut off")
    assert not (run.folder / "out").exists()


def test_dry_run_writes_nothing(run):
    lines = run("--dry-run").splitlines()
    programs = [line.split()[0] for line in lines if line.startswith(("fairseq-", "python "))]
    row = ["fairseq-train", "python", "fairseq-generate", "python", "python"]
    assert programs == ["python", *row, *row]
    assert list(run.folder.iterdir()) == []
