"""Multi30k from published archives to the score of a model."""

import gzip
import itertools
import json

from test_translating import captions


def write_archives(folder):
    """Write the six published files."""
    folder.mkdir()
    pairs = itertools.cycle(captions())
    for name, size in (("train", 400), ("val", 20), ("test_2016_flickr", 20)):
        sides = zip(*itertools.islice(pairs, size), strict=True)
        for language, lines in zip(("de", "en"), sides, strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return folder


def test_from_archives_to_a_score(recipe_run, tmp_path):
    folder = tmp_path / "with a space"
    small = ["--small", "--data", folder / "data", "--out", folder / "out"]
    lines = recipe_run("multi30k/run", *small, "--dry-run").splitlines()
    programs = [line.split()[:2] for line in lines if line.startswith(("fairseq-", "posattn "))]
    row = ["fairseq-train", "average", "fairseq-generate", "score"]
    names = [words[0] if words[0] != "posattn" else words[1] for words in programs]
    assert names == ["prepare", *row, *row, *row]
    assert not folder.exists()

    sizes = " ".join(f"--{side}-layers 1 --{side}-embed-dim 16" for side in ("encoder", "decoder"))
    flags = f"{sizes} --max-tokens 400 --num-workers 0"
    source = write_archives(tmp_path / "published")
    arguments = ["--source", source, "--rows", "DMAN", "--gpus", "0", "--max-update", "5"]
    assert "| DMAN " in recipe_run("multi30k/run", *small, *arguments, "--", *flags.split())

    text = (folder / "data" / "text" / "train.de").read_text(encoding="utf-8").splitlines()
    assert text[0] == "ein mann sieht einen ball , dann noch mehr ."
    rows = json.loads((folder / "out" / "run.json").read_text())["rows"]
    (dman,) = (row for row in rows if row.get("seeds"))
    assert (dman["row"], dman["table"].split(",")[0]) == ("DMAN", "First models")
    assert dman["command"].endswith(f" multi30k/run --small --max-update 5 -- {flags}")
    assert (dman["seeds"], dman["updates"]) == ([1], 5)
    assert dman["data"] == "multi30k-4000, --data data, 20 sentences of the test set"
    assert "tok:none" in dman["signature"]
    assert 0 <= dman["scores"]["bleu"][0] <= 100
    (stored,) = (folder / "out").glob("*/seed1/statistics.json")
    statistics = json.loads(stored.read_text())["metrics"]
    counts = {name: len(sentences) for name, sentences in statistics.items()}
    assert counts == dict.fromkeys(("bleu", "chrf2", "ter"), 20)
