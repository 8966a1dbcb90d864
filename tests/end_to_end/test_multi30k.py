"""examples/multi30k on a small corpus in Multi30k's published layout."""

import gzip
import http.server
import itertools
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "multi30k"
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


class BreakingServer(http.server.ThreadingHTTPServer):
    """Serves a folder; the first answer about each file of ``breaks`` stops half-way.

    It can go on from any byte, except in the files of ``whole_only``.
    """

    def __init__(self, folder, breaks=(), whole_only=()):
        super().__init__(("127.0.0.1", 0), BreakingHandler)
        self.folder = folder
        self.breaks = set(breaks)
        self.whole_only = set(whole_only)
        self.requests = []  # (file name, first byte)

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *exception):
        self.shutdown()
        self.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/raw"


class BreakingHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server, name = self.server, self.path.removeprefix("/raw/")
        path = server.folder / name
        if not path.is_file():
            return self.send_error(404)
        content = path.read_bytes()
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", "bytes=0-"))
        start = int(asked[1])
        server.requests.append((name, start))
        if name in server.whole_only:
            start = 0
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        if name in server.breaks:
            server.breaks.remove(name)
            content = content[: len(content) // 2]
        self.wfile.write(content[start:])

    def log_message(self, *args):
        pass


def start(program, *arguments, cwd):
    environment = {
        "POSATTN_ENV": sys.prefix,
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "no_proxy": "*",
        "PIP_NO_INDEX": "1",  # the environment of these tests is complete, or they fail
    }
    interpreter = "bash" if program.endswith(".sh") else sys.executable
    return subprocess.run(
        [interpreter, EXAMPLE / program, *arguments],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
    )


def succeed(*arguments, cwd):
    finished = start(*arguments, cwd=cwd)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout + finished.stderr


def fail(*arguments, cwd):
    """The one line that is the last that a failing program says."""
    finished = start(*arguments, cwd=cwd)
    assert finished.returncode == 1
    assert "Traceback" not in finished.stderr
    return finished.stderr.splitlines()[-1]


def text_of(folder):
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def downloaded(published, tmp_path_factory):
    """What prepare.sh made of a download that broke off, with the server's log."""
    folder = tmp_path_factory.mktemp("with a space")
    with BreakingServer(
        published, breaks=["train.en.gz", "val.de.gz"], whole_only=["val.de.gz"]
    ) as server:
        succeed("prepare.sh", "--url", server.url, "--merges", "60", "--data", "data", cwd=folder)
    return folder / "data", server.requests


def test_download_goes_on_where_it_broke_off(published, downloaded):
    data, requests = downloaded
    half = (published / "train.en.gz").stat().st_size // 2
    assert [first for name, first in requests if name == "train.en.gz"] == [0, half]
    for path in published.iterdir():
        assert (data / "download" / path.name).read_bytes() == path.read_bytes()
    assert len(list((data / "download").iterdir())) == 6  # nothing half-loaded is left


def test_download_starts_over_where_the_server_cannot_go_on(published, downloaded):
    _, requests = downloaded
    half = (published / "val.de.gz").stat().st_size // 2
    assert [first for name, first in requests if name == "val.de.gz"] == [0, half, 0]


def test_raw_text_is_lower_cased_tokenised_and_escaped(downloaded):
    data, _ = downloaded
    lines = (data / "text" / "train.de").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "ein mann sieht einen ball , dann noch mehr ."
    assert lines[1] == "ein mann sieht einen ball &quot; heute &quot; ."
    assert {path.name for path in (data / "text").iterdir()} == {
        f"{split}.{language}" for split in SIZES for language in LANGUAGES
    }


def test_binarised_data_has_one_dictionary_for_both_languages(downloaded):
    data, _ = downloaded
    german, english = ((data / "bpe60" / f"dict.{lang}.txt").read_text() for lang in LANGUAGES)
    assert german == english
    assert "ei@@ " in german or "e@@ " in german


def test_tokenised_text_is_taken_as_it_is(downloaded, tmp_path):
    text = downloaded[0] / "text"
    succeed("prepare_text.py", text, tmp_path / "text", cwd=tmp_path)
    assert text_of(tmp_path / "text") == text_of(text)


def test_missing_file_on_the_server_is_one_line(tmp_path):
    with BreakingServer(tmp_path) as server:
        line = fail("prepare.sh", "--url", server.url, "--data", tmp_path / "data", cwd=tmp_path)
    assert line == (
        f"multi30k: error: {server.url}/train.de.gz cannot be had; "
        "--source takes a folder that is here"
    )


def write_text(folder, **lines):
    """A tokenised corpus of two lines a side, except where ``lines`` says otherwise."""
    folder.mkdir()
    for split, language in itertools.product(SIZES, LANGUAGES):
        name = f"{split}.{language}"
        (folder / name).write_text("ein satz\n" * lines.get(name.replace(".", "_"), 2))
    return folder


def test_unequal_line_counts_are_one_line(tmp_path):
    source = write_text(tmp_path / "source", train_en=3)
    line = fail("prepare_text.py", source, tmp_path / "text", cwd=tmp_path)
    assert line.endswith(f"line counts differ: {source}/train.de 2 but {source}/train.en 3")
    assert not (tmp_path / "text").exists()


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda source: (source / "test.de").unlink(), "source lacks test.de"),
        (lambda source: (source / "test.de").write_text(""), "test.de 0 but"),
        (lambda source: (source / "test.de").write_bytes(b"a\n\xff\n"), "test.de is not UTF-8"),
    ],
)
def test_bad_source_is_one_line(tmp_path, spoil, complaint):
    source = write_text(tmp_path / "source")
    spoil(source)
    assert complaint in fail("prepare_text.py", source, tmp_path / "text", cwd=tmp_path)
    assert not (tmp_path / "text").exists()


def test_truncated_compressed_file_is_one_line(published, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    for path in published.iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    damaged = source / "val.en.gz"
    damaged.write_bytes(damaged.read_bytes()[:-20])
    line = fail("prepare_text.py", source, tmp_path / "text", cwd=tmp_path)
    assert f"{damaged} is damaged" in line


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sauce", "x"], "unknown option --sauce"),
        (["--source", "no/such/folder"], "--source no/such/folder is not a folder"),
        (["--seed"], "--seed needs a value"),
        (["--max-update", "many"], "--max-update many: must be a positive whole number"),
    ],
)
def test_bad_options_are_one_line(tmp_path, arguments, complaint):
    line = fail("run.sh", "--data", "data", "--out", "out", *arguments, cwd=tmp_path)
    assert line.startswith(f"multi30k: error: {complaint}")


def test_dry_run_writes_nothing(tmp_path):
    printed = succeed("run.sh", "--dry-run", "--data", "data", "--out", "out", cwd=tmp_path)
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


def test_both_models_are_trained_scored_and_prolonged(downloaded):
    """One story, since each command costs seconds."""
    folder = downloaded[0].parent
    out = folder / "out"

    succeed("run.sh", *TINY, "--max-update", "5", *TINY_FLAGS, cwd=folder)
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
    succeed("run.sh", *TINY, "--max-update", "6", *only_dman, *TINY_FLAGS, cwd=folder)
    log = (out / "dman_iwslt_de_en" / "train.log").read_text()
    assert re.search(r"Loaded checkpoint .*checkpoint_last.pt \(epoch 1 @ 5 updates\)", log)
    (prolonged,) = json.loads((out / "results-6.json").read_text())["runs"]
    assert prolonged["updates"] == 6

    # What is finished is left alone.
    again = succeed("run.sh", *TINY, "--max-update", "5", *TINY_FLAGS, cwd=folder)
    assert "fairseq-train" not in again
    assert "fairseq-generate" not in again
    assert json.loads((out / "results-5.json").read_text()) == results

    # Other settings do not mix with these.
    line = fail("run.sh", *TINY, "--seed", "2", *TINY_FLAGS, cwd=folder)
    assert "transformer_iwslt_de_en was trained with other settings" in line


def test_unknown_architecture_is_one_line(downloaded):
    folder = downloaded[0].parent
    line = fail("run.sh", *TINY, "--models", "dman_iwslt_de_fr", cwd=folder)
    assert line.endswith("'dman_iwslt_de_fr' is no architecture")
