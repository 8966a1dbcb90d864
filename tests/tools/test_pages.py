"""Generated blocks: published numbers beside measured ones; pictures can be drawn."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_posattn.common.errors import UsageError
from tools.pages import measurements
from tools.pages.command import BLOCK, BLOCKS, OF_TABLES, main, pages, results_of, write
from tools.pages.tables import Results, add, recipe_folders

ROOT = Path(__file__).parents[2]
SMALL = {
    **{"table": "Own: small", "row": "DMAN", "paper": {"accuracy": None, "macro_f1": None}},
    **{"scores": {"accuracy": [90.0, 92.0], "macro_f1": [80.0, 80.0]}, "seeds": [1, 2]},
    **{"metric": "test set", "data": "own", "hardware": "CPU", "versions": {}},
}
LINE = "<!-- line: Own: small -->\n<!-- end of line: Own: small -->\n"
SPEED = "<!-- speed in short -->\n\n- as fast as ever\n\n<!-- end of speed in short -->\n"
RESULTS = "Before\n\n<!-- results -->\n<!-- end of results -->\n\nAfter\n"
ROW = {
    "table": "DMAN, Table 2: Gigaword",
    "row": "DMAN (released form)",
    "paper": {"rouge1": 38.28, "rouge2": 19.46, "rougeL": 35.46},
    "scores": {"rouge1": [38.0, 39.0], "rouge2": [19.0, 19.0], "rougeL": [35.0, 35.0]},
    **{"seeds": [1, 2], "metric": "ROUGE F1", "data": "gigaword, 1,951 sentences"},
    **{"hardware": "2 x GPU", "versions": {"torch": "2.13.0", "fairseq_posattn": None}},
    "parameters": 107000000,
}
OTHER = {"row": "Transformer"}
UNMEASURED = {"table": ROW["table"], **OTHER, "paper": ROW["paper"], "scores": {}}


def unpadded(text):
    """Remove the padding of Markdown tables."""
    return re.sub(" +", " ", re.sub(":?-{3,}:?", "-", text))


@pytest.fixture
def fill_numbers(capsys):
    """Run the command on a checkout; return its output or error."""

    def fill_numbers(root, *arguments, refused=False):
        words = [*map(str, arguments)], "fill_numbers", root
        if refused:
            with pytest.raises(UsageError) as error:
                main(*words)
            assert "\n" not in str(error.value)
            return str(error.value)
        assert main(*words) == 0
        return capsys.readouterr().out

    return fill_numbers


@pytest.fixture
def checkout(tmp_path):
    """Return a function that writes a checkout with the given README.md and results."""

    def checkout(text, *rows):
        for folder in ("results", "benchmarks/results"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "README.md").write_text(text)
        for number, row in enumerate(rows):
            (tmp_path / "results" / f"{number}.json").write_text(json.dumps(row))
        return tmp_path

    return checkout


@pytest.mark.slow
def test_all_pages_are_up_to_date(fill_numbers):
    """If not, run scripts/fill_numbers.py."""
    assert "up to date" in fill_numbers(ROOT, "--check")


def test_every_block_is_in_a_page():
    texts = [page.read_text(encoding="utf-8") for page in pages(ROOT)]
    named = {block[1] for text in texts for block in BLOCK.finditer(text)}
    kinds = {name.partition(": ")[0] for name in named}
    assert BLOCKS.keys() | OF_TABLES.keys() <= named | kinds


def test_a_line_has_the_first_metric_of_all_rows(fill_numbers, checkout):
    single = {**SMALL, "row": "MPSAN", "seeds": [1], "scores": {"accuracy": [90], "macro_f1": [80]}}
    root = checkout(f"Before\n\n{LINE}\nAfter\n", SMALL, single)
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


def test_unmeasured_blocks_say_so_and_tables_of_several_files_are_joined(tmp_path):
    results = Results(tmp_path, tmp_path)
    for name in measurements.BLOCKS:
        assert write(name, results) == "Not measured yet."
    table = "|  a | b |\n|----|--:|\n| {} | 1 |\n"  # the header once
    (tmp_path / "training_cpu.md").write_text(table.format("one"))
    (tmp_path / "training_cpu_intel.md").write_text(f"{table.format('two')}\nA note.\n")
    text = unpadded(write("speed of training", results))
    assert text == "| a | b |\n|-|-|\n| one | 1 |\n| two | 1 |\n\nA note."


@pytest.mark.nightly
def test_all_pictures_are_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    for script in ("tools/pictures.py", "scripts/mechanism_pictures.py"):
        subprocess.run([sys.executable, ROOT / script, tmp_path], check=True)
        subprocess.run([sys.executable, ROOT / script, "--help"], cwd=tmp_path, check=True)
    assert not (tmp_path / "--help").exists()
    heads = {path.name: path.read_bytes()[:4] for path in tmp_path.rglob("*.png")}
    assert {"idea.png", "results.png", "sequence_length.png", "dman.png"} < heads.keys()
    assert set(heads.values()) == {b"\x89PNG"}


def test_the_picture_has_no_empty_panel(monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    from tools import pictures

    drawn = []
    monkeypatch.setattr(pictures, "write_picture", lambda figure, path: drawn.append(figure))
    pictures.draw_results(results_of(ROOT), tmp_path / "results.png")
    (figure,) = drawn
    assert figure.axes
    assert all(len(axis.lines) > 1 for axis in figure.axes)  # the first is that of no difference


@pytest.fixture
def section(fill_numbers, checkout):
    """Return a function that fills the results of rows and returns the section of a table."""

    def section(*rows, title=ROW["table"]):
        root = checkout(RESULTS, *rows)
        fill_numbers(root)
        text = unpadded((root / "README.md").read_text())
        return text.partition(f"### {title}\n")[2].partition("\n#")[0]

    return section


def test_a_measured_row_stands_beside_the_papers(fill_numbers, checkout, section, tmp_path):
    root = checkout(RESULTS)
    table = tmp_path / "gigaword.json"
    table.write_text(json.dumps({"tiny": False, "rows": [UNMEASURED, ROW]}))
    fill_numbers(root, "--add", table)
    file = root / "results" / "dman" / "gigaword" / "dman-released-form.json"
    assert json.loads(file.read_text()) == ROW
    # The deviation of 38 and 39 is the square root of a half; this row has no R-avg.
    assert section().strip().splitlines() == [
        "`bash examples/dman/gigaword.sh`",
        "",
        "| | ROUGE-1 / ROUGE-2 / ROUGE-L / R-avg: paper | ours | best | runs | parameters |",
        "|-|-|-|-|-|-|",
        "| Transformer | 37.57 / 18.90 / 34.69 / 30.38 | | | | |",
        "| DMAN (released form) | 38.28 / 19.46 / 35.46 / 31.06 "
        "| 38.50 ± 0.71 / 19.00 ± 0.00 / 35.00 ± 0.00 / - | 39.00 / 19.00 / 35.00 / - "
        "| 2 | 107,000,000 |",
        "",
        "ROUGE F1. Data: gigaword, 1,951 sentences. "
        "Hardware, versions, commands: `results/dman/gigaword`.",
    ]
    text = (root / "README.md").read_text()
    assert text.startswith("Before\n") and text.endswith("After\n")
    assert "up to date" in fill_numbers(root, "--check")


def test_rows_lie_where_add_stores_them():
    results = results_of(ROOT)
    for (title, _), (path, _) in results.files.items():
        folder = path.parent.relative_to(results.folder)
        assert recipe_folders().get(title, folder) == folder
    small = "Mechanisms in translation, small models: Multi30k"
    assert recipe_folders()[small] == Path("multi30k/mechanisms_small")
    assert Results(ROOT / "none", ROOT).folder_of("Not a recipe's: (1)") == Path("not-a-recipe-s-1")


def test_rows_whose_names_differ_in_signs_or_case_have_files_each(checkout, tmp_path):
    root, path = checkout(RESULTS), tmp_path / "table.json"
    names = ["DMAN", "DMAN+", "dman", "模型", "基线", "+", "-"]
    for score in (38.0, 39.0):  # the second table replaces the first
        rows = [{**ROW, "row": name, "scores": {"rouge1": [score, score]}} for name in names]
        path.write_text(json.dumps({"rows": rows}))
        add(path, results_of(root))
        stored = results_of(root).rows
        assert {row: scored["scores"]["rouge1"][0] for (_, row), scored in stored.items()} == (
            dict.fromkeys(names, score)
        )


def test_folds_are_a_run_and_a_table_of_no_recipe_is_shown(section):
    scores = {"accuracy": [90.0, 92.0, 94.0, 96.0], "loss": [0.5, 0.4, 0.3, 0.2]}
    row = {**ROW, "table": "Own", "paper": {"accuracy": None}, "scores": scores, "folds": [0, 1]}
    table = section(row, title="Own")
    assert "| | accuracy | runs | parameters | also |\n" in table
    # The runs have 92, the mean of 90 and 94, and 94.
    row = "| DMAN (released form) | 93.00 ± 1.41 | 2 × 2 folds | 107,000,000 |"
    assert f"{row} loss: 0.5, 0.4, 0.3, 0.2 |\n" in table


def test_the_choice_of_learning_rates_is_stated_once(section):
    tuning = {"seeds": [1], "updates": 1600, "metric": "lowest validation loss", "chosen": 0.003}
    tuned = {**ROW, "tuning": {**tuning, "tried": {"0.003": 4.5, "0.006": None}}}
    text = section(tuned, {**tuned, **OTHER})
    assert " | learning rate | runs | parameters |\n" in text
    assert "| 0.003 | 2 | 107,000,000 |\n" in text
    how = "Learning rates chosen from 0.003, 0.006 by lowest validation loss after 1,600 updates"
    assert text.count(f"{how} (seed 1). ") == 1


COMPARED = {
    **{"with": "Transformer", "sentences": 1951, "runs": [2, 2], "tests": "sentences and runs"},
    "metrics": {
        "rouge1": {"difference": 1.0, "interval": [0.2, 1.8], "p": 0.012},
        "rougeL": {"difference": -0.5, "interval": [-1.2, 0.2], "p": 0.34},
    },
}


def test_differences_are_from_the_baseline(section):
    scores = {"rouge1": [37.0, 38.0], "rouge2": [19.0, 19.0], "rougeL": [35.4, 35.6]}
    baseline = {**ROW, **OTHER, "scores": scores}
    table = section({**ROW, "compared": COMPARED}, baseline)
    assert "| ours | best | difference | runs | parameters |" in table
    assert "| **+1.00** (p = 0.012) / - / -0.50 (p = 0.34) / - | 2 |" in table
    note = "Difference from Transformer: n = 1,951 sentences, 2 runs, tested over sentences"
    assert f"{note} and runs (bold: p < 0.05, uncorrected). " in table
    # A stored comparison with a baseline that was measured again is replaced by Welch's test: t of
    # 38.5 and 36.25, with s² of 0.5 and 0.125, is 2.25 / 0.559 = 4.02, with 1.47 degrees.
    baseline["scores"] = {**scores, "rouge1": [36.0, 36.5]}
    table = section({**ROW, "compared": COMPARED}, baseline)
    assert "| **+1.00**" not in table and "| +2.25 (p = 0.092) / " in table
    assert "n = 2 runs, tested over runs, Welch's t-test" in table


def test_a_custom_table_keeps_its_baseline(section):
    """Its files are sorted by name, and the first row is not the one it was compared with."""
    scores = {"rouge1": [37.0, 38.0], "rougeL": [35.4, 35.6]}
    custom = {**ROW, "table": "Own", "paper": dict.fromkeys(("rouge1", "rougeL"))}
    first, baseline = ({**custom, "row": row, "scores": scores} for row in ("ALiBi", "Plain"))
    compared = {**custom, "compared": {**COMPARED, "with": "Plain"}}
    table = section(first, baseline, compared, title="Own")
    assert "| **+1.00** (p = 0.012) / -0.50 (p = 0.34) | 2 |" in table
    assert "ifference from Plain: n = 1,951 sentences, 2 runs" in table
    assert table.index("| Plain ") < table.index("| ALiBi ")


def test_single_runs_missing_scores_and_locality_are_not_compared(section):
    single = {**ROW, "seeds": [1], "scores": {"rouge1": [38.0]}}
    assert "Differences of single runs are not tested. " in section(single, {**single, **OTHER})
    without = {**ROW, "scores": {}, "compared": COMPARED}
    assert "p = 0.34" not in section(without, {**ROW, **OTHER})
    rows = [  # a comparison of two windows would mean nothing
        {**ROW, "table": "Attention: here", "row": name, "paper": {"layer 1": None}}
        | {"scores": {"layer 1": [nearest, nearest + 1]}}
        for name, nearest in (("DMAN 1", 50.0), ("DMAN 2", 70.0))
    ]
    text = section(*rows, title="Attention: here")
    assert "| | layer 1 | runs | parameters |\n" in text and "70.50 ± 0.71 | 2 |" in text
    assert "ifference" not in text


@pytest.mark.parametrize(
    "table, mentions",
    [
        ({"tiny": True, "rows": [ROW]}, ["--tiny"]),
        ({"rows": [UNMEASURED]}, ["no row was measured"]),
        ({"rows": [{**ROW, "seeds": [1, 2, 3]}]}, ["rouge1 has 2 values for 3 runs"]),
        ({"rows": [{key: ROW[key] for key in ROW if key != "hardware"}]}, ["lacks hardware"]),
        ([], ["no JSON object"]),
        ({"rows": 5}, ["no list of rows"]),
        ({"rows": [{"seeds": [1], "table": 3}]}, ["lacks"]),
        ("[" * 200_000, ["no result of a recipe"]),
    ],
    ids=lambda value: str(value)[:20],
)
def test_other_files_are_not_added(fill_numbers, checkout, tmp_path, table, mentions):
    root = checkout(RESULTS)
    path = tmp_path / "table.json"
    path.write_text(table if isinstance(table, str) else json.dumps(table))
    with pytest.raises(UsageError) as refused:
        add(path, results_of(root))
    error = str(refused.value)
    assert error.startswith(f"{path}") and "\n" not in error
    assert [mention for mention in mentions if mention not in error] == []
    assert list((root / "results").iterdir()) == []


@pytest.mark.parametrize(
    "key, value",
    [
        ("row", "DMAN | 99"),
        ("hardware", "CPU\n\n# Results"),
        ("signature", "` <b>"),
        ("paper", {"<b>": 1.0}),
        ("scores", {"rouge1": [1e400, 39.0]}),
        ("seeds", [1, "<b>"]),
    ],
)
def test_a_malformed_row_is_one_line_and_no_markup(fill_numbers, checkout, key, value):
    root = checkout(RESULTS, {**ROW, key: value})
    error = fill_numbers(root, refused=True)
    assert f"{root / 'results' / '0.json'}: {key} is " in error
    assert (root / "README.md").read_text() == RESULTS
