"""examples/multi30k on a small corpus in Multi30k's published layout."""

import gzip
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RUN = ROOT / "examples" / "multi30k" / "run.sh"
PREPARE = ROOT / "scripts" / "prepare_translation.py"
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


def start(*command, cwd):
    environment = {
        "POSATTN_ENV": sys.prefix,
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PIP_NO_INDEX": "1",  # the environment of these tests is complete, or they fail
    }
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )


def succeed(*command, cwd):
    finished = start(*command, cwd=cwd)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout + finished.stderr


def fail(*command, cwd):
    """The one line that is the last that a failing program says."""
    finished = start(*command, cwd=cwd)
    assert finished.returncode == 1
    assert "Traceback" not in finished.stderr
    return finished.stderr.splitlines()[-1]


def run(*arguments):
    return ["bash", RUN, *arguments]


def prepare(*arguments):
    return [sys.executable, PREPARE, "multi30k", "--jobs", "1", *arguments]


@pytest.fixture(scope="module")
def prepared(published, tmp_path_factory):
    """Where run.sh expects prepared data, given ``--data data --merges 60``."""
    folder = tmp_path_factory.mktemp("with a space")
    options = ["--source", published, "--dest", "data/bpe60", "--bpe-operations", "60"]
    succeed(*prepare(*options), cwd=folder)
    return folder / "data" / "bpe60"


def test_raw_text_is_lower_cased_tokenised_and_escaped(prepared):
    lines = (prepared / "text" / "train.de").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "ein mann sieht einen ball , dann noch mehr ."
    assert lines[1] == "ein mann sieht einen ball &quot; heute &quot; ."
    assert len(lines) == SIZES["train"]


def test_binarised_data_has_one_dictionary_for_both_languages(prepared):
    german, english = ((prepared / f"dict.{lang}.txt").read_text() for lang in LANGUAGES)
    assert german == english
    assert "ei@@ " in german or "e@@ " in german


def test_bad_source_is_one_line(published, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for path in published.iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    damaged = source / "val.en.gz"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    line = fail(*run("--source", source, "--data", "data", "--out", "out"), cwd=tmp_path)
    assert line.startswith(f"prepare_translation: error: {damaged}: damaged or cut off")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sauce", "x"], "unknown option --sauce"),
        (["--seed"], "--seed needs a value"),
        (["--max-update", "many"], "--max-update many: must be a positive whole number"),
    ],
)
def test_bad_options_are_one_line(tmp_path, arguments, complaint):
    line = fail(*run("--data", "data", "--out", "out", *arguments), cwd=tmp_path)
    assert line.startswith(f"multi30k: error: {complaint}")


def test_dry_run_writes_nothing(tmp_path):
    printed = succeed(*run("--dry-run", "--data", "data", "--out", "out"), cwd=tmp_path)
    programs = [line.split()[1] for line in printed.splitlines()]
    assert programs == ["fairseq-train", "python", "fairseq-generate"] * 2
    assert not list(tmp_path.iterdir())


TINY = ["--small", "--merges", "60", "--data", "data", "--out", "out"]
TINY_FLAGS = [
    "--",
    *("--encoder-layers", "1", "--encoder-embed-dim", "16"),
    *("--decoder-layers", "1", "--decoder-embed-dim", "16"),
    *("--max-tokens", "200", "--save-interval-updates", "1", "--num-workers", "0"),
]


def test_both_models_are_trained_scored_and_prolonged(prepared):
    """One story, since each command costs seconds."""
    folder = prepared.parents[1]
    out = folder / "out"

    succeed(*run(*TINY, "--max-update", "5", *TINY_FLAGS), cwd=folder)
    results = json.loads((out / "results-5.json").read_text())
    stock, dman = results["runs"]
    assert (stock["architecture"], dman["architecture"]) == (
        "transformer_iwslt_de_en",
        "dman_iwslt_de_en",
    )
    differing = {
        name for name, value in stock["settings"].items() if value != dman["settings"][name]
    }
    assert differing == {"encoder_ffn_embed_dim", "decoder_ffn_embed_dim"}
    assert stock["updates"] == dman["updates"] == 5
    assert 0 <= dman["bleu"] <= 100
    assert "tok:none" in dman["signature"]
    assert dman["fairseq_bleu"].startswith("BLEU4 = ")
    assert results["test_sentences"] == SIZES["test"]

    # What shall be longer goes on from where it was.
    only_dman = ["--models", "dman_iwslt_de_en"]
    succeed(*run(*TINY, "--max-update", "6", *only_dman, *TINY_FLAGS), cwd=folder)
    log = (out / "dman_iwslt_de_en" / "train.log").read_text()
    assert re.search(r"Loaded checkpoint .*checkpoint_last.pt \(epoch 1 @ 5 updates\)", log)
    (prolonged,) = json.loads((out / "results-6.json").read_text())["runs"]
    assert prolonged["updates"] == 6

    # What is finished is left alone.
    again = succeed(*run(*TINY, "--max-update", "5", *TINY_FLAGS), cwd=folder)
    assert "fairseq-train" not in again
    assert "fairseq-generate" not in again
    assert json.loads((out / "results-5.json").read_text()) == results

    # Other settings do not mix with these.
    line = fail(*run(*TINY, "--seed", "2", *TINY_FLAGS), cwd=folder)
    assert "transformer_iwslt_de_en was trained with other settings" in line


def test_unknown_architecture_is_one_line(prepared):
    folder = prepared.parents[1]
    line = fail(*run(*TINY, "--models", "dman_iwslt_de_fr"), cwd=folder)
    assert line.endswith("'dman_iwslt_de_fr' is no architecture")
