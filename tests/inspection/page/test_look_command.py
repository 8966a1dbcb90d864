"""``posattn look``, by the small trained models among the fixtures."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_posattn.inspection.commands import look as command
from fairseq_posattn.inspection.page import view as view_module
from fairseq_posattn.inspection.page.view import open_view
from fairseq_posattn.text.manifest import Manifest
from fairseq_posattn.text.words import RULES

FIXTURES = Path(__file__).parents[2] / "fixtures"


def look(kind, *arguments):
    folder = FIXTURES / kind
    words = [folder / "checkpoint.pt", "--data", folder / "data", *arguments]
    return command.main(list(map(str, words)), prog="posattn look")


def read(path):
    """Return the data of a page."""
    match = re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"))
    return json.loads(match[1])


def error_of(capsys):
    """Return the line of the error."""
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
    return line.removeprefix("posattn look: error: ")


def test_a_page_of_translations(write, tmp_path, capsys):
    path, page = write("text", "a b c\n\n \nd e\n"), tmp_path / "page.html"
    assert look("translation", "--sentences", path, "--output", page) == 0
    data = read(page)
    assert [sentence["text"] for sentence in data["sentences"]] == ["a b c", "d e"]
    assert data["sentences"][0]["rows"]["source"] == ["a", "b", "c", "</s>"]
    assert data["asks"] == ""
    size = page.stat().st_size / 1000
    assert capsys.readouterr().out == f"{page}: 2 sentences, {size:,.0f} kB\n"


def test_a_page_of_labels_from_the_standard_input(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xef\xbb\xbfa b d\r\n")))
    page = tmp_path / "page.html"
    assert look("classification", "--sentences", "-", "--output", page) == 0
    (sentence,) = read(page)["sentences"]
    assert sentence["rows"] == {"words": ["a", "b", "d"]}
    assert sentence["outcome"]["label"] in ("back", "forth")


def test_a_tab_is_a_space_to_a_model_of_one_sentence(write, tmp_path, capsys):
    path, page = write("text", "a\tb d\n\u200b\n"), tmp_path / "page.html"
    assert look("classification", "--sentences", path, "--output", page) == 0
    (sentence,) = read(page)["sentences"]
    assert sentence["rows"] == {"words": ["a", "b", "d"]}
    assert f"{path}: 1 line was read with a space for each TAB" in capsys.readouterr().err


def test_targets_are_shown(write, tmp_path):
    texts, targets = write("text", "a b\n\nc\n"), write("targets", "B A\n\n</s> D\n")
    page = tmp_path / "page.html"
    options = ["--sentences", texts, "--targets", targets, "--output", page]
    assert look("translation", *options) == 0
    rows = [sentence["rows"]["target"] for sentence in read(page)["sentences"]]
    assert rows == [["B", "A", "</s>"], ["<unk>", "D", "</s>"]]  # a typed mark is a word


@pytest.mark.parametrize(
    "kind, file, text, shown",
    [
        ("translation", "test.de", "\na\nb a d\nc d\n", ["b a d"]),
        ("translation", "test.de", "a " * 100, []),
        ("translation", "test.de", "\u6211\n\u4f60\u597d\n", ["\u4f60\u597d"]),
        ("translation", "test.en", "b a d\n", []),
        ("classification", "text/test.input0", "a b " * 40 + "\na b\n", ["a b"]),
    ],
)
def test_a_short_text_of_the_test_set_is_an_example(kind, file, text, shown, tmp_path):
    data = shutil.copytree(FIXTURES / kind / "data", tmp_path / "data")
    (data / file).parent.mkdir(exist_ok=True)
    (data / file).write_text(text)
    view = open_view(str(FIXTURES / kind / "checkpoint.pt"), str(data))
    assert [sentence["text"] for sentence in view.example()] == shown
    if kind == "classification":  # subwords in the file are shown as text
        view.predictor.rules = Manifest("own", "", "text", subwords="sentencepiece")
        (data / file).write_text("\u2581a \u2581 b\n")
        assert [sentence["text"] for sentence in view.example()] == ["a b"]
        view.predictor.rules = Manifest("own", "", "documents")
        view.predictor.words = RULES["documents"]
        (data / file).write_text("a . <sep> b\n")
        (document,) = view.example()
        assert len(document["rows"]["words"]) == 4


def test_the_example_is_read_where_the_data_was_in_training(tmp_path, monkeypatch):
    copy = shutil.copytree(FIXTURES / "translation/data", tmp_path / "copy")
    view = open_view(str(FIXTURES / "translation/checkpoint.pt"), str(copy))
    (tmp_path / "data").mkdir()
    (tmp_path / "data/test.de").write_text("a b c\n")
    settings = {"cfg": {"task": {"data": str(tmp_path / "data")}}}
    monkeypatch.setattr(view_module, "read_checkpoint", lambda path, device: settings)
    assert [sentence["text"] for sentence in view.example()] == ["a b c"]


def test_sublayers_can_be_chosen(write, tmp_path):
    path, page = write("text", "a b\n"), tmp_path / "page.html"
    options = ["--sublayers", "dman,cross", "--layers", "1"]
    assert look("translation", "--sentences", path, "--output", page, *options) == 0
    assert [layer["name"] for layer in read(page)["model"]["layers"]] == ["dman", "dman", "cross"]


def test_a_full_page_reports_what_it_holds(write, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "MOST_WEIGHTS", 300)
    path, page = write("text", "a b\n\nd e\na b c d\na\n"), tmp_path / "page.html"
    assert look("classification", "--sentences", path, "--output", page) == 0
    assert len(read(page)["sentences"]) == 4
    monkeypatch.setattr(command, "MOST_WEIGHTS", 60)
    assert look("classification", "--sentences", path, "--output", page) == 0
    assert len(read(page)["sentences"]) == 2
    warning = "the page is full with 2 sentences, before line 4; choose some with"
    assert warning in capsys.readouterr().err


@pytest.mark.parametrize(
    "kind, text, options, error",
    [
        ("classification", b"\n\n", [], r"no sentences"),
        ("classification", b"", [], r"the file is empty"),
        ("classification", b"\n" + b"a b " * 7, [], "text:2: its attention is too large"),
        ("classification", b"a\n", ["--targets", "TARGETS"], "needs a model that translates"),
        ("translation", b"a\nb\n", ["--targets", "TARGETS"], "line counts differ"),
        ("classification", b"a\n", ["--output", "missing/page.html"], "there is no such folder"),
    ],
)
def test_an_error_is_one_line_and_leaves_no_page(
    kind, text, options, error, write, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(command, "MOST_WEIGHTS", 400)
    targets, page = write("targets", "A\n"), tmp_path / "page.html"
    path = write("text", text)
    words = [targets if option == "TARGETS" else option for option in options]
    assert look(kind, "--sentences", path, "--output", page, *words) == 1
    assert re.search(error, error_of(capsys))
    assert not page.exists()


@pytest.mark.parametrize(
    "options, error",
    [
        ([], "nothing to do; give one of them"),
        (["--output", "page.html"], "--output and --targets need --sentences"),
        (["--serve", "--layers", "x"], "argument --layers: 'x' is not a whole number"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, error, capsys):
    with pytest.raises(SystemExit) as stopped:
        look("classification", *options)
    assert stopped.value.code == 2
    assert error in capsys.readouterr().err


@pytest.mark.slow
def test_ctrl_c_ends_the_server_quietly():
    folder = FIXTURES / "classification"
    words = ["-m", "fairseq_posattn.cli", "look", folder / "checkpoint.pt", "--data"]
    words += [folder / "data", "--serve", "0"]
    process = subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(FIXTURES.parents[1])},
    )
    try:
        line = process.stdout.readline()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ until Ctrl-C\n", line), process.stderr.read()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert (process.returncode, output, errors) == (0, "", "")
