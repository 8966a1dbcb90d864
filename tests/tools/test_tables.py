"""The tables of results: the papers' numbers, and beside them what was measured."""

import json
from pathlib import Path

import pytest

from fairseq_posattn.common.errors import UsageError
from tools.pages.command import results_of
from tools.pages.results import Results, add, recipe_folders

ROOT = Path(__file__).parents[2]

PLACE = "Before\n\n<!-- results -->\n<!-- end of results -->\n\nAfter\n"
ROW = {
    "table": "DMAN, Table 2: Gigaword",
    "row": "DMAN (released)",
    "paper": {"rouge1": 38.28, "rouge2": 19.46, "rougeL": 35.46},
    "scores": {"rouge1": [38.0, 39.0], "rouge2": [19.0, 19.0], "rougeL": [35.0, 35.0]},
    "seeds": [1, 2],
    "metric": "ROUGE F1",
    "data": "gigaword, 1,951 sentences",
    "hardware": "2 x GPU",
    "versions": {"torch": "2.13.0", "fairseq_posattn": None},
    "parameters": 107000000,
}
UNMEASURED = {"table": ROW["table"], "row": "Transformer", "paper": ROW["paper"], "scores": {}}


@pytest.fixture
def elsewhere(checkout):
    """A checkout, its page and its folder of results."""
    root = checkout(PLACE)
    return root, root / "README.md", root / "results"


def test_a_measured_row_stands_beside_the_papers(fill_numbers, elsewhere, unpadded, tmp_path):
    root, page, results = elsewhere
    kept = tmp_path / "gigaword.json"
    kept.write_text(json.dumps({"tiny": False, "rows": [UNMEASURED, ROW]}))
    fill_numbers(root, "--add", kept)
    file = results / "dman" / "gigaword" / "dman-released.json"
    assert json.loads(file.read_text()) == ROW
    text = unpadded(page.read_text())
    assert text.startswith("Before\n") and text.endswith("After\n")
    section = text.partition("### DMAN, Table 2: Gigaword\n")[2].partition("\n#")[0]
    # The deviation of 38 and 39 is the square root of a half; this row has no R-avg.
    assert section.strip().splitlines() == [
        "`bash examples/dman/gigaword.sh`",
        "",
        "| | ROUGE-1 / ROUGE-2 / ROUGE-L / R-avg: paper | ours | best | runs | parameters |",
        "|-|-|-|-|-|-|",
        "| Transformer | 37.57 / 18.90 / 34.69 / 30.38 | | | | |",
        "| DMAN (released) | 38.28 / 19.46 / 35.46 / 31.06 "
        "| 38.50 ± 0.71 / 19.00 ± 0.00 / 35.00 ± 0.00 / - | 39.00 / 19.00 / 35.00 / - "
        "| 2 | 107,000,000 |",
        "",
        "ROUGE F1. Data: gigaword, 1,951 sentences. "
        "Hardware, versions, commands: `results/dman/gigaword`.",
    ]
    assert "up to date" in fill_numbers(root)
    fill_numbers(root, "--check")


def test_rows_lie_where_add_stores_them():
    results = results_of(ROOT)
    for (title, _), (path, _) in results.files.items():
        folder = path.parent.relative_to(results.folder)
        assert recipe_folders().get(title, folder) == folder
    small = "Mechanisms in translation, small models: Multi30k"
    assert recipe_folders()[small] == Path("multi30k/mechanisms_small")
    assert Results(ROOT / "none", ROOT).folder_of("Not a recipe's: (1)") == Path("not-a-recipe-s-1")


def test_folds_are_a_run_and_a_table_of_no_recipe_is_shown(fill_numbers, elsewhere, unpadded):
    root, page, results = elsewhere
    scores = {"accuracy": [90.0, 92.0, 94.0, 96.0], "loss": [0.5, 0.4, 0.3, 0.2]}
    row = {**ROW, "table": "Own", "paper": {"accuracy": None}, "scores": scores, "folds": [0, 1]}
    (results / "own.json").write_text(json.dumps(row))
    fill_numbers(root)
    table = unpadded(page.read_text()).partition("### Own\n")[2].partition("###")[0]
    assert "| | accuracy | runs | parameters | also |\n" in table
    # The runs have 92, the mean of 90 and 94, and 94.
    row = "| DMAN (released) | 93.00 ± 1.41 | 2 × 2 folds | 107,000,000 |"
    assert f"{row} loss 0.5, 0.4, 0.3, 0.2 |\n" in table


def test_learning_rates_that_were_chosen(fill_numbers, elsewhere, unpadded):
    """How, once for all rows."""
    root, page, results = elsewhere
    tuning = {"seeds": [1], "updates": 1600, "metric": "lowest validation loss", "chosen": 0.003}
    tuning["tried"] = {"0.003": 4.5, "0.006": None}
    for row in ("DMAN (released)", "Transformer"):
        (results / f"{row}.json").write_text(json.dumps({**ROW, "row": row, "tuning": tuning}))
    fill_numbers(root)
    text = unpadded(page.read_text())
    assert " | learning rate | runs | parameters |\n" in text
    assert "| 0.003 | 2 | 107,000,000 |\n" in text
    tuned = "Learning rates chosen from 0.003, 0.006 by lowest validation loss after 1,600 updates"
    assert text.count(f"{tuned} (seed 1). ") == 1


COMPARED = {
    "with": "Transformer",
    "sentences": 1951,
    "runs": [2, 2],
    "tests": "sentences and runs",
    "metrics": {
        "rouge1": {"difference": 1.0, "interval": [0.2, 1.8], "p": 0.012},
        "rougeL": {"difference": -0.5, "interval": [-1.2, 0.2], "p": 0.34},
    },
}


def test_differences_are_from_the_baseline(fill_numbers, elsewhere, unpadded):
    root, page, results = elsewhere
    scores = {"rouge1": [37.0, 38.0], "rouge2": [19.0, 19.0], "rougeL": [35.4, 35.6]}
    baseline = {**UNMEASURED, **ROW, "row": "Transformer", "scores": scores}
    (results / "dman.json").write_text(json.dumps({**ROW, "compared": COMPARED}))
    (results / "transformer.json").write_text(json.dumps(baseline))
    fill_numbers(root)
    table = (
        unpadded(page.read_text()).partition("### DMAN, Table 2: Gigaword\n")[2].partition("###")[0]
    )
    assert "| ours | best | difference | runs | parameters |" in table
    assert "| **+1.00** (p = 0.012) / - / -0.50 (p = 0.34) / - | 2 |" in table
    note = (
        "Difference from Transformer: n = 1,951 sentences, 2 runs, tested over sentences and runs"
    )
    assert f"{note} (bold: p < 0.05). " in table
    # Once the baseline was measured anew, what was kept is of another one.
    baseline["scores"] = {**scores, "rouge1": [36.0, 36.5]}
    (results / "transformer.json").write_text(json.dumps(baseline))
    fill_numbers(root)
    text = unpadded(page.read_text())
    # Welch's t of 38.5 and 36.25, with s² of 0.5 and 0.125: 2.25 / 0.559 = 4.02, 1.47 degrees.
    assert "| **+1.00**" not in text and "| +2.25 (p = 0.092) / " in text
    assert "n = 2 runs, tested over runs, Welch's t-test" in text


def test_single_runs_are_not_compared(fill_numbers, elsewhere):
    root, page, results = elsewhere
    single = {**ROW, "seeds": [1], "scores": {"rouge1": [38.0]}}
    for name in ("DMAN (released)", "Transformer"):
        (results / f"{name}.json").write_text(json.dumps({**single, "row": name}))
    fill_numbers(root)
    assert "Differences of single runs are not tested. " in page.read_text()


def test_locality_is_not_compared(fill_numbers, elsewhere, unpadded):
    """That of one window with that of another would say nothing."""
    root, page, results = elsewhere
    for name, nearest in (("DMAN 1", 50.0), ("DMAN 2", 70.0)):
        scores = {"layer 1": [nearest, nearest + 1]}
        row = {**ROW, "table": "Attention: here", "row": name, "paper": {"layer 1": None}}
        (results / f"{name}.json").write_text(json.dumps({**row, "scores": scores}))
    fill_numbers(root)
    text = unpadded(page.read_text())
    assert "| | layer 1 | runs | parameters |\n" in text and "70.50 ± 0.71 | 2 |" in text
    assert "ifference" not in text


@pytest.mark.parametrize(
    "table, mentions",
    [
        ({"tiny": True, "rows": [ROW]}, ["--tiny"]),
        ({"rows": [UNMEASURED]}, ["no row was measured"]),
        ({"rows": [{**ROW, "seeds": [1, 2, 3]}]}, ["rouge1 has 2 values for 3 runs"]),
        ({"rows": [{key: ROW[key] for key in ROW if key != "hardware"}]}, ["lacks hardware"]),
    ],
)
def test_what_is_not_kept(fill_numbers, elsewhere, tmp_path, table, mentions):
    root, page, results = elsewhere
    before = page.read_text()
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps(table))
    error = fill_numbers(root, "--add", kept, refused=True)
    assert error.startswith(f"{kept}: ") and "\n" not in error
    assert [mention for mention in mentions if mention not in error] == []
    assert (list(results.iterdir()), page.read_text()) == ([], before)


@pytest.mark.parametrize(
    "key, value",
    [
        ("row", "DMAN | 99"),
        ("data", "<script>alert(1)</script>"),
        ("hardware", "CPU\n\n# Results"),
        ("signature", "` <b>"),
        ("command", ["bash"]),
        ("paper", {"<b>": 1.0}),
        ("scores", {"rouge1": None}),
        ("scores", {"rouge1": [38.0, None]}),
        ("scores", {"rouge1": [1e400, 39.0]}),
        ("versions", None),
        ("updates", "20"),
        ("seeds", [1, "<b>"]),
        ("tuning", {}),
        ("tuning", {"seeds": None}),
        ("compared", {"with": "Transformer", "runs": [2, 2], "tests": "t", "metrics": {"a": 1}}),
        ("note", {"a": [[]]}),
    ],
)
def test_a_malformed_row_is_one_line_and_no_markup(fill_numbers, elsewhere, key, value):
    root, page, results = elsewhere
    (results / "hostile.json").write_text(json.dumps({**ROW, key: value}))
    before = page.read_text()
    error = fill_numbers(root, refused=True)
    assert f"{results / 'hostile.json'}: {key} is " in error and "\n" not in error
    assert page.read_text() == before


def test_a_comparison_of_what_was_not_scored_is_left_out(fill_numbers, elsewhere):
    root, page, results = elsewhere
    one = {"difference": 1.0, "p": 0.5}
    compared = {"with": "Transformer", "runs": [2, 2], "tests": "t", "metrics": {"rouge1": one}}
    (results / "one.json").write_text(json.dumps({**ROW, "scores": {}, "compared": compared}))
    (results / "two.json").write_text(json.dumps({**ROW, "row": "Transformer"}))
    fill_numbers(root)
    assert "p = 0.50" not in page.read_text()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"null",
        bytes(range(256)),
        b"[" * 200_000,
        b'{"rows": 5}',
        b'{"rows": [1, null]}',
        b'{"rows": ' + b"9" * 5000 + b"}",
        b'{"rows": [{"seeds": [1], "table": 3}]}',
    ],
    ids=lambda content: str(content[:20]),
)
def test_a_file_that_is_no_table_is_one_line_and_nothing_is_kept(tmp_path, content):
    (tmp_path / "results").mkdir()
    path = tmp_path / "table.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="table.json") as refused:
        add(path, Results(tmp_path / "results", tmp_path))
    assert "\n" not in str(refused.value)
    assert not list((tmp_path / "results").iterdir())
