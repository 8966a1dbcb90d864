"""``posattn look``, by the small trained models among the fixtures."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_posattn.inspection.commands import look as command

FIXTURES = Path(__file__).parents[2] / "fixtures"


def look(kind, *arguments):
    folder = FIXTURES / kind
    words = [folder / "checkpoint.pt", "--data", folder / "data", *arguments]
    return command.main(list(map(str, words)), prog="posattn look")


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


def read(path):
    """The data of a page."""
    found = re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"))
    return json.loads(found[1])


def error_of(capsys):
    """What is told in one line."""
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


def test_translations_that_are_given(write, tmp_path):
    texts, targets = write("text", "a b\n\nc\n"), write("targets", "B A\n\n</s> D\n")
    page = tmp_path / "page.html"
    options = ["--sentences", texts, "--targets", targets, "--output", page]
    assert look("translation", *options) == 0
    rows = [sentence["rows"]["target"] for sentence in read(page)["sentences"]]
    assert rows == [["B", "A", "</s>"], ["<unk>", "D", "</s>"]]  # a typed mark is a word


def test_only_the_sublayers_that_are_asked_for(write, tmp_path):
    path, page = write("text", "a b\n"), tmp_path / "page.html"
    options = ["--sublayers", "dman,cross", "--layers", "1"]
    assert look("translation", "--sentences", path, "--output", page, *options) == 0
    assert [place["name"] for place in read(page)["model"]["places"]] == ["dman", "dman", "cross"]


def test_a_page_that_is_full_says_what_it_holds(write, tmp_path, capsys, monkeypatch):
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
    "content, error",
    [
        (b"a\n\xff\n", r"text:2: not UTF-8"),
        (b"\n\n", r"no sentences"),
        (b"", r"the file is empty"),
        (b"a b\n" + b"a " * 40, r"text:2: 41 tokens with the end symbol"),
        (b"a\tb\n", r"text:1: the model needs one sentence, not 2"),
    ],
)
def test_what_is_wrong_with_a_text_is_one_line_and_leaves_no_page(
    content, error, write, tmp_path, capsys
):
    page = tmp_path / "page.html"
    assert look("classification", "--sentences", write("text", content), "--output", page) == 1
    assert re.search(error, error_of(capsys))
    assert not page.exists()


def test_unknown_words_are_told(write, tmp_path, capsys):
    path, page = write("text", "a b never seen words\n"), tmp_path / "page.html"
    assert look("classification", "--sentences", path, "--output", page) == 0
    assert f"warning: {path}: 3 of 5 words are unknown to the model" in capsys.readouterr().err


def test_a_line_that_is_cut_is_told(write, tmp_path, capsys):
    path, page = write("text", f"a b\n{'a b ' * 12}\n"), tmp_path / "page.html"
    assert look("translation", "--sentences", path, "--output", page) == 0
    assert len(read(page)["sentences"][1]["rows"]["source"]) == 16
    assert f"warning: {path}: 1 line was cut to the 16 subwords" in capsys.readouterr().err


def test_a_sentence_that_no_page_has_room_for(write, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(command, "MOST_WEIGHTS", 5)
    path, page = write("text", "\na b\n"), tmp_path / "page.html"
    assert look("classification", "--sentences", path, "--output", page) == 1
    assert error_of(capsys).startswith(f"{path}:2: its attention is too large for a page; choose")


def test_files_that_do_not_go_together(write, tmp_path, capsys):
    texts, targets = write("text", "a\nb\n"), write("targets", "A\n")
    options = ["--sentences", texts, "--targets", targets, "--output", tmp_path / "page.html"]
    assert look("translation", *options) == 1
    assert "line counts differ" in error_of(capsys)


def test_targets_are_for_models_that_translate(write, tmp_path, capsys):
    path = write("text", "a\n")
    options = ["--sentences", path, "--targets", path, "--output", tmp_path / "page.html"]
    assert look("classification", *options) == 1
    assert error_of(capsys) == f"--targets {path}: needs a model that translates"


@pytest.mark.parametrize(
    "options, error",
    [
        ([], "nothing to do; give one of them"),
        (["--output", "page.html"], "--output and --targets need --sentences"),
        (["--serve", "70000"], "argument --serve: invalid port value: '70000'"),
        (["--serve", "--layers", "x"], "invalid list of numbers value: 'x'"),
    ],
)
def test_flags_that_do_not_go_together(options, error, capsys):
    with pytest.raises(SystemExit) as stopped:
        look("classification", *options)
    assert stopped.value.code == 2
    assert error in capsys.readouterr().err


def test_files_that_are_not_there(write, tmp_path, capsys):
    missing = tmp_path / "missing"
    assert look("classification", "--sentences", missing, "--output", tmp_path / "page.html") == 1
    assert error_of(capsys) == f"--sentences {missing}: No such file or directory"
    path = write("text", "a\n")
    assert look("classification", "--sentences", path, "--output", missing / "page.html") == 1
    assert "there is no such folder" in error_of(capsys)


@pytest.mark.slow
def test_a_server_ends_by_ctrl_c_without_a_word():
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
