"""Blocks of pages are filled by their names; pictures can be drawn."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools.pages import measurements
from tools.pages.command import OF_TABLES, PLACE, PLACES, pages, write
from tools.pages.tables import Results

ROOT = Path(__file__).parents[2]
ROW = {
    **{"table": "Own: small", "row": "DMAN", "paper": {"accuracy": None, "macro_f1": None}},
    **{"scores": {"accuracy": [90.0, 92.0], "macro_f1": [80.0, 80.0]}, "seeds": [1, 2]},
    **{"metric": "test set", "data": "own", "hardware": "CPU", "versions": {}},
}
LINE = "<!-- line: Own: small -->\n<!-- end of line: Own: small -->\n"
SPEED = "<!-- speed in short -->\n\n- as fast as ever\n\n<!-- end of speed in short -->\n"


@pytest.mark.slow
def test_all_pages_are_up_to_date(fill_numbers):
    """If not, run scripts/fill_numbers.py."""
    assert "up to date" in fill_numbers(ROOT, "--check")


def test_every_place_is_in_a_page():
    texts = [page.read_text(encoding="utf-8") for page in pages(ROOT)]
    named = {place[1] for text in texts for place in PLACE.finditer(text)}
    kinds = {name.partition(": ")[0] for name in named}
    assert PLACES.keys() | OF_TABLES.keys() <= named | kinds


def test_a_line_has_the_first_metric_of_all_rows(fill_numbers, checkout):
    single = {**ROW, "row": "MPSAN", "seeds": [1], "scores": {"accuracy": [90], "macro_f1": [80]}}
    root = checkout(f"Before\n\n{LINE}\nAfter\n", ROW, single)
    assert f"wrote {root / 'README.md'}" in fill_numbers(root)
    line = "Accuracy, 1 or 2 runs each: DMAN 91.00 ± 1.41, MPSAN 90.00."
    block = LINE.replace("<!-- end", f"\n{line}\n\n<!-- end")
    assert (root / "README.md").read_text() == f"Before\n\n{block}\nAfter\n"
    assert "wrote" not in fill_numbers(root)


def test_check_reports_an_old_number_and_leaves_it(fill_numbers, checkout):
    root = checkout(SPEED)
    error = fill_numbers(root, "--check", refused=True)
    assert error.endswith("README.md: out of date; run fill_numbers")
    assert (root / "README.md").read_text() == SPEED
    fill_numbers(root)
    assert "\n\nNot measured yet.\n\n" in (root / "README.md").read_text()


@pytest.mark.parametrize(
    "text, mentions",
    [
        ("<!-- speed -->\n<!-- end of speed -->\n", ["speed: unknown block", "speed in short"]),
        ("<!-- table: X -->\n<!-- end of table: X -->\n", ["X: no file"]),
        ("<!-- speed in short -->\n", ["<!-- speed in short -->: this mark has no counterpart"]),
        ("<!-- end of results -->\n", ["<!-- end of results -->: this mark has no counterpart"]),
    ],
)
def test_a_wrong_mark_is_one_line(fill_numbers, checkout, text, mentions):
    root = checkout(text)
    error = fill_numbers(root, refused=True)
    assert error.startswith(f"{root / 'README.md'}: ")
    assert [mention for mention in mentions if mention not in error] == []
    assert (root / "README.md").read_text() == text


def test_unmeasured_blocks_say_so(tmp_path):
    results = Results(tmp_path, tmp_path)
    for name in measurements.PLACES:
        assert write(name, results) == "Not measured yet."


def test_tables_of_several_files_are_joined_by_their_header(tmp_path, unpadded):
    table = "|  a | b |\n|----|--:|\n| {} | 1 |\n"
    (tmp_path / "training_cpu.md").write_text(table.format("one"))
    (tmp_path / "training_cpu_intel.md").write_text(f"{table.format('two')}\nA note.\n")
    text = unpadded(write("speed of training", Results(tmp_path, tmp_path)))
    assert text == "| a | b |\n|-|-|\n| one | 1 |\n| two | 1 |\n\nA note."


@pytest.mark.slow
def test_all_pictures_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    for script in ("tools/pictures.py", "scripts/mechanism_pictures.py"):
        subprocess.run([sys.executable, ROOT / script, tmp_path], check=True)
    heads = {path.name: path.read_bytes()[:4] for path in tmp_path.rglob("*.png")}
    assert {"idea.png", "results.png", "sequence_length.png", "dman.png"} < heads.keys()
    assert set(heads.values()) == {b"\x89PNG"}
