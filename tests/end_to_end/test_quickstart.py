"""The quickstart, run as a newcomer runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"


def quickstart(*arguments, cwd):
    """Run it from ``cwd`` in the environment of these tests, into which it may install nothing."""
    return subprocess.run(
        ["bash", QUICKSTART / "run.sh", *arguments],
        cwd=cwd,
        env={"POSATTN_ENV": sys.prefix, **os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def test_it_learns_to_translate(tmp_path):
    """The real thing, where an earlier run has left its files."""
    out = tmp_path / "with space"
    for leftover in (
        "binarised/dict.de.txt",
        "binarised/dict.en.txt",
        "checkpoints/checkpoint_last.pt",
    ):
        (out / leftover).parent.mkdir(parents=True, exist_ok=True)
        (out / leftover).write_text("of an earlier run")

    finished = quickstart("--out", "with space", cwd=tmp_path)

    assert finished.returncode == 0, finished.stdout + finished.stderr
    said = finished.stdout
    assert re.search(r"update +50 of 700 +training loss \d", said)
    assert re.search(r"update +700 of 700 +validation loss \d", said)
    bleu = re.search(r"^BLEU (\d+\.\d+) \(sacreBLEU, nrefs:1.*\)$", said, re.MULTILINE)
    assert float(bleu[1]) >= 97

    examples = re.findall(
        r"^   source +(\w+)\n   reference +(.+)\n   output +(.+)$", said, re.MULTILINE
    )
    test_set = [
        (out / "corpus" / f"test.{language}")
        .read_text(encoding="utf-8")
        .replace("@@ ", "")
        .splitlines()
        for language in ("de", "en")
    ]
    pairs = list(zip(*test_set, strict=True))
    assert [(source, reference) for source, reference, _ in examples[:5]] == pairs[:5]
    assert f"of {len(pairs)} translations are exact" in said


def test_a_wrong_option_is_one_line_and_loses_nothing(tmp_path):
    model = tmp_path / "checkpoints" / "checkpoint_last.pt"
    model.parent.mkdir()
    model.write_text("of an earlier run")

    finished = quickstart("--out", tmp_path, "--encoder-sublayers", "nonsense,ffn", cwd=tmp_path)

    assert finished.returncode == 1
    assert finished.stderr.count("\n") == 1
    assert "unknown sublayer 'nonsense'" in finished.stderr
    assert model.read_text() == "of an earlier run"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--out"], "--out needs a directory"),
        (["--out", "file/below"], "file/below cannot be made"),
        (["--save-dir", "elsewhere"], "say --out"),
    ],
)
def test_a_folder_that_will_not_do_is_one_line(tmp_path, arguments, complaint):
    (tmp_path / "file").write_text("")
    finished = quickstart(*arguments, cwd=tmp_path)
    assert finished.returncode == 1
    assert finished.stderr.count("\n") == 1
    assert complaint in finished.stderr


def test_help_makes_nothing(tmp_path):
    finished = quickstart("--help", "--out", "new", cwd=tmp_path)
    assert finished.returncode == 0
    assert "usage: " in finished.stdout
    assert "--out DIR" in finished.stdout
    assert not list(tmp_path.iterdir())


def show_translations(path):
    return subprocess.run(
        [sys.executable, QUICKSTART / "show_translations.py", path],
        env={**os.environ, "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        encoding="utf-8",
    )


def test_translations_are_shown_in_the_order_of_the_test_set(tmp_path):
    path = tmp_path / "translations.txt"
    path.write_text(
        "S-1\tzwölf\nT-1\ttwelve\nH-1\t-0.5\ttwel\nD-1\t-0.5\ttwo thousand\nP-1\t-0.1 -0.9\n"
        "S-0\telf\nT-0\televen\nH-0\t-0.2\televen\nD-0\t-0.2\televen\nP-0\t-0.2\n"
        "Generate test with beam=5: BLEU = 0.0\n",
        encoding="utf-8",
    )
    said = show_translations(path).stdout
    first, wrong = said.split("differ from their references")
    assert [line.split() for line in first.splitlines() if line.startswith("   source")] == [
        ["source", "elf"],
        ["source", "zwölf"],
    ]
    assert "elf" not in wrong
    assert "output     two thousand" in wrong
    assert "1 of 2 translations are exact" in wrong


def test_a_file_without_translations_is_named(tmp_path):
    path = tmp_path / "empty.txt"
    path.write_text("")
    finished = show_translations(path)
    assert finished.returncode == 1
    assert finished.stderr == f"show_translations.py: error: {path} holds no translations\n"
