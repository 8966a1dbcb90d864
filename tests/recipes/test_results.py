"""What is read from the logs of a run, kept and tabled."""

import json
import shutil
from dataclasses import replace
from importlib.metadata import version
from math import nan

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.recipes.plan import Entry
from fairseq_posattn.recipes.results import record
from fairseq_posattn.recipes.rows import make_rows
from fairseq_posattn.recipes.runs import Run
from fairseq_posattn.recipes.tables import print_tables

GPU = "capabilities =  9.0  ; total memory = 139.8 GB ; name = NVIDIA H200          "
TRANSLATED = f"""\
x | num. shared model params: 1,234,567 (num. trained: 1,234,567)
x | rank   0: {GPU}
x | rank   1: {GPU}
x | training on 2 devices (GPUs/TPUs)
x | INFO | train_inner | {{"epoch": 1, "update": 0.5, "loss": "7", "num_updates": "10"}}
x | INFO | valid | {{"epoch": 2, "valid_loss": "7", "valid_num_updates": "20"}}
x | INFO | train | {{"epoch": 2, "train_loss": "7", "train_num_updates": "20"}}
"""
SCORED = {
    "rouge1": 41.234,
    "rouge2": 18.0,
    "rougeL": 37.5,
    "signature": "rouge|f1",
    "counts": {"scored": 2, "missing": 0, "empty": 0, "skipped": 0},
    "warnings": [],
}


def validation(epoch, **scores):
    numbers = {"epoch": epoch, "valid_num_updates": str(78 * epoch), "valid_wps": "9"}
    numbers |= {f"valid_{name}": str(score) for name, score in scores.items()}
    return f"x | INFO | valid | {json.dumps(numbers)}\n"


CLASSIFIED = (
    "x |   (embed_tokens): Embedding(100, 30, padding_idx=1)\n"
    "x | num. shared model params: 5,000 (num. trained: 5,000)\n"
    + validation(1, loss=1.5, accuracy=60, macro_f1=51)
    + validation(2, loss=1.25, accuracy=70, macro_f1=62, best_accuracy=70)
    + validation(3, loss=1.5e-05, accuracy=70, macro_f1=63, best_accuracy=70)
    + validation(4, loss=1, accuracy=65, macro_f1=64, best_accuracy=70)
)
TESTED = """\
x | INFO | test | {"test_loss": "0.85", "test_accuracy": "80.6", "test_macro_f1": "68.18", \
"test_wps": "0", "test_wpb": "4258", "test_bsz": "500"}
x | INFO | test1 | {"test1_accuracy": "70.5", "test1_bsz": "9"}
"""


@pytest.fixture
def translated(tmp_path):
    """A run that was trained on GPUs, and whose summaries were scored."""
    folder = tmp_path / "model" / "seed1"
    folder.mkdir(parents=True)
    (folder / "score.json").write_text(json.dumps(SCORED))
    (folder / "train.log").write_text(TRANSLATED)
    return Run("A", folder, ("seed 1", "train --arch transformer --lr 1"), (), metric="ROUGE F1")


@pytest.fixture
def classified(tmp_path):
    """A run that was tested, the third of its epochs having the best accuracy at last."""
    folder = tmp_path / "model" / "seed1"
    folder.mkdir(parents=True)
    (folder / "train.log").write_text(CLASSIFIED)
    (folder / "test.log").write_text(TESTED)
    return Run("A", folder, ("data /no", "seed 1", "train --best-checkpoint-metric accuracy"), ())


def kept(run):
    record(run)
    return json.loads(run.result.read_text())


# --- A run -------------------------------------------------------------------------------------


def test_a_translation(translated):
    result = kept(translated)
    average = round((41.234 + 18.0 + 37.5) / 3, 2)
    assert result["scores"] == {
        **{"rouge1": 41.23, "rouge2": 18.0, "rougeL": 37.5},
        "average": average,
    }
    assert (result["metric"], result["signature"]) == ("ROUGE F1", "rouge|f1")
    assert (result["parameters"], result["updates"]) == (1234567, 20)
    assert result["counts"]["scored"] == 2
    assert result["settings"] == {"seed": "1", "train": "--arch transformer --lr 1"}
    assert result["hardware"] == "2 x NVIDIA H200"
    assert result["versions"]["torch"] == version("torch")


@pytest.mark.parametrize(
    ("flags", "precision"), [("", "fp32"), (" --bf16", "bf16"), ("\nprecision --fp16", "fp16")]
)
def test_a_result_and_its_table_have_the_precision(translated, tmp_path, capsys, flags, precision):
    settings = f"seed 1\ntrain --lr 1{flags}".split("\n")
    kept(replace(translated, settings=tuple(settings)))
    recipe = RECIPES["dman/gigaword"]
    entry = Entry(recipe.title, "ours", ("rouge1",), ("-",), translated.folder.parent)
    rows = make_rows(recipe, [entry], "", recipe.title)
    print_tables(recipe, rows)
    assert rows[0]["precision"] == precision
    assert capsys.readouterr().out.endswith(f"\nprecision of training: {precision}\n")


def test_half_a_translation_is_refused(translated):
    scored = {**SCORED, "counts": {**SCORED["counts"], "missing": 1}}
    (translated.folder / "score.json").write_text(json.dumps(scored))
    with pytest.raises(UsageError, match="1 hypotheses are missing"):
        record(translated)
    assert not translated.result.exists()


def test_a_classifier(classified):
    result = kept(classified)
    assert result["scores"] == {
        **{"loss": 0.85, "accuracy": 80.6, "macro_f1": 68.18},
        "test1_accuracy": 70.5,
    }
    assert result["examples"] == {"train": None, "test": 500}
    assert (result["updates"], result["word vectors"]) == (312, 30)
    assert (result["parameters"], result["parameters without word vectors"]) == (5000, 2000)
    assert result["validation"] == {
        "epoch": 3,
        "updates": 234,
        "scores": {"loss": 1.5e-05, "accuracy": 70, "macro_f1": 63},
    }
    assert result["hardware"].startswith("CPU: ")


def test_the_seconds_of_an_epoch(classified):
    """Of an interrupted run's last epoch a part was trained; its first was another run's."""
    log = classified.folder / "train.log"
    epochs = [(7, 700, 90), (8, 800, 30), (9, 900, 40), (10, 950, 20)]
    for epoch, updates, seconds in epochs:
        told = {"epoch": epoch, "train_num_updates": updates, "train_train_wall": str(seconds)}
        log.write_text(f"{log.read_text()}x | INFO | train | {json.dumps(told)}\n")
    # 90 seconds for 250 updates, of which an epoch has 100
    assert kept(classified)["epoch_s"] == 36.0


@pytest.mark.parametrize("length, seconds", [({"epochs": 1}, 5.0), ({"updates": 10}, None)])
def test_the_seconds_of_the_only_epoch(classified, length, seconds):
    """A training by updates may have ended before that did."""
    log = classified.folder / "train.log"
    told = {"epoch": 1, "train_num_updates": 10, "train_train_wall": "5"}
    log.write_text(f"{log.read_text()}x | INFO | train | {json.dumps(told)}\n")
    assert kept(replace(classified, **length)).get("epoch_s") == seconds


@pytest.mark.parametrize("log, text", [("test.log", "killed\n"), ("train.log", "killed\n")])
def test_a_log_that_is_not_whole_is_named(classified, log, text):
    (classified.folder / log).write_text(text)
    with pytest.raises(UsageError) as refused:
        record(classified)
    assert str(classified.folder / log) in str(refused.value)
    assert not classified.result.exists()


def test_what_is_not_trained_is_recorded_from_its_ranking(tmp_path):
    scores = {"auc": 0.5, "mrr": 0.3, "ndcg5": 0.2, "ndcg10": 0.4}
    found = {**scores, "scored": 9, "skipped": 1, "warnings": ["1 impressions are left out"]}
    folder = tmp_path / "popularity" / "seed1"
    folder.mkdir(parents=True)
    (folder / "ranking.json").write_text(json.dumps(found))
    result = kept(Run("A", folder, ("data /no", "seed 1", "rank popularity"), ()))
    assert result["scores"] == {**scores, "skipped": 1}
    assert result["examples"] == {"train": None, "test": 10}
    recipe = RECIPES["da_transformer/table5_mind"]
    entry = Entry(f"{recipe.title}: mind", "Popularity", ("auc",), ("-",), folder.parent)
    (row,) = make_rows(recipe, [entry], "", recipe.title)
    assert (row["scores"], row["seeds"]) == ({"auc": [50.0]}, [1])
    assert row["data"] == "mind, 10 examples of the test set"
    assert row["metric"] == "test set, nothing is trained"


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"scores": []},
        {"scores": {"auc": None}, "settings": {"seed": "1"}},
        {"scores": {"auc": nan}, "settings": {"seed": "1"}, "examples": {"test": 1, "train": 1}},
        {"scores": {"auc": 0.5}, "settings": {"seed": 1e400}, "examples": {}},
        {"scores": {"auc": 0.5}, "settings": {"seed": "1"}, "examples": 5},
    ],
)
def test_a_result_that_is_none_is_one_line_with_its_folder(result, tmp_path):
    (tmp_path / "seed1").mkdir()
    (tmp_path / "seed1" / "result.json").write_text(json.dumps(result))
    recipe = RECIPES["da_transformer/table5_mind"]
    entry = Entry(f"{recipe.title}: mind", "Popularity", ("auc",), ("-",), tmp_path)
    with pytest.raises(UsageError, match=f"^{tmp_path}: a result in it is malformed .*; re"):
        make_rows(recipe, [entry], "", recipe.title)


@pytest.mark.parametrize(
    "key, value",
    [
        ("metric", "\x1b[31m"),
        ("signature", "`<b>"),
        ("parameters", "many"),
        ("updates", 1e400),
        ("precision", None),
        ("versions", {"torch": "<b>"}),
        ("hardware", [1]),
    ],
)
def test_what_a_result_says_of_its_making_has_its_form(translated, key, value):
    result = kept(translated)
    translated.result.write_text(json.dumps({**result, key: value}))
    recipe = RECIPES["dman/gigaword"]
    folder = translated.folder.parent
    entry = Entry(recipe.title, "ours", ("rouge1",), ("-",), folder)
    with pytest.raises(UsageError, match=f"^{folder}: {key} is .*; remove the file or") as refused:
        make_rows(recipe, [entry], "", recipe.title)
    assert str(refused.value).isprintable()


# --- Tables ------------------------------------------------------------------------------------


def with_seeds(run, *scores):
    """Results of the seeds 1, 2, ... with these scores; returns the folder of all."""
    result = kept(run)
    for seed, numbers in enumerate(scores, 1):
        folder = run.folder.with_name(f"seed{seed}")
        folder.mkdir(exist_ok=True)
        one = {**result, "scores": numbers, "settings": {**result["settings"], "seed": str(seed)}}
        (folder / "result.json").write_text(json.dumps(one))
    return run.folder.parent


def cells(printed):
    """Of the lines of a Markdown table."""
    lines = [line for line in printed.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_a_table_of_translations(translated, tmp_path, capsys):
    scores = [{"rouge1": one, "rouge2": 18.0, "rougeL": 37.5} for one in (41.23, 43.23)]
    folder = with_seeds(translated, *scores)
    recipe = RECIPES["dman/gigaword"]
    title, metrics = recipe.title, ("rouge1", "rouge2")
    entries = [
        Entry(title, "ours", metrics, ("42.1", "18.5"), folder),
        Entry(title, "not run", metrics, ("-",), tmp_path / "no"),
    ]
    rows = make_rows(recipe, entries, "command", f"{title} (tiny)")
    print_tables(recipe, rows)
    printed = capsys.readouterr().out
    assert printed.startswith(f"\n{title} (tiny)\n\n")
    assert cells(printed) == [
        ["row", "paper", "ours", "runs", "parameters"],
        # the deviation of 41.23 and 43.23 is the square root of 2
        ["ours", "42.10 18.50", "42.23 ± 1.41 18.00 ± 0.00", "2", "1,234,567"],
    ]
    ours, not_run = rows
    assert ours["scores"] == {"rouge1": [41.23, 43.23], "rouge2": [18.0, 18.0]}
    assert (ours["seeds"], ours["paper"]) == ([1, 2], {"rouge1": 42.1, "rouge2": 18.5})
    assert (ours["data"], ours["command"]) == ("gigaword, 2 sentences of the test set", "command")
    assert (not_run["scores"], not_run["paper"]) == ({}, {"rouge1": None, "rouge2": None})


def test_nothing_was_run_of_what_nobody_published(tmp_path, capsys):
    recipe = RECIPES["multi30k/mechanisms"]
    entry = Entry(recipe.title, "not run", ("bleu",), ("-",), tmp_path / "no")
    print_tables(recipe, make_rows(recipe, [entry], "command", recipe.title))
    printed = capsys.readouterr().out
    assert cells(printed)[1:] == [["not run", "-", "-", "0"]]
    assert "no finished run" in printed


def test_a_table_of_classifiers(classified, tmp_path, capsys):
    """Mean, sample deviation and best of two seeds; the best error is the lowest."""
    folder = with_seeds(classified, {"accuracy": 80, "mse": 0.5}, {"accuracy": 83, "mse": 0.25})
    recipe = RECIPES["mpsan/table6_sentences"]
    title, metrics = f"{recipe.title}: trec", ("accuracy", "mse")
    entries = [
        Entry(title, "ours", metrics, ("94.8±0.2", "-"), folder),
        Entry(title, "not run", metrics, ("-", "0.3"), tmp_path / "no"),
        Entry(title, "unknown", metrics, ("-", "-"), tmp_path / "no"),
    ]
    rows = make_rows(recipe, entries, "command", recipe.title)
    print_tables(recipe, rows)
    printed = capsys.readouterr().out
    assert f"\n{title}\n" in printed
    numbers = ["94.80 ± 0.20", "81.50 ± 2.12", "83.00", "-", "0.3750 ± 0.1768", "0.2500"]
    assert cells(printed) == [
        [
            "row",
            "paper's accuracy",
            "our accuracy",
            "best",
            "paper's mse",
            "our mse",
            "best",
        ]
        + ["runs", "parameters"],
        ["ours", *numbers, "2", "2,000"],
        ["not run", "-", "-", "-", "0.3000", "-", "-", "0", "-"],
    ]
    assert rows[0]["paper"] == {"accuracy": 94.8, "mse": None}
    assert rows[0]["paper's deviation"] == {"accuracy": 0.2}
    assert rows[0]["scores"] == {"accuracy": [80, 83], "mse": [0.5, 0.25]}
    assert rows[0]["seeds"] == [1, 2]
    assert rows[0]["data"] == "trec, 500 examples of the test set, word vectors of 30 features"
    assert rows[1]["scores"] == {}


def test_classifiers_are_compared_by_their_runs(classified, tmp_path, capsys):
    """Without what each example adds; a cost is not compared."""
    folder = with_seeds(classified, {"accuracy": 80}, {"accuracy": 82})
    other = folder.with_name("other")
    shutil.copytree(folder, other)
    for seed, accuracy in ((1, 60), (2, 62)):
        path = other / f"seed{seed}" / "result.json"
        result = json.loads(path.read_text())
        path.write_text(json.dumps({**result, "scores": {"accuracy": accuracy}}))
    recipe = RECIPES["mtsa/table1_snli"]
    title, metrics = f"{recipe.title}: snli", ("accuracy", "parameters_m")
    entries = [
        Entry(title, "MTSA", metrics, ("-", "-"), folder),
        Entry(title, "Multi-head", metrics, ("-", "-"), other),
    ]
    rows = make_rows(recipe, entries, "command", recipe.title)
    print_tables(recipe, rows)
    printed = capsys.readouterr().out
    header, ours, baseline = cells(printed)
    assert header[:5] == ["row", "accuracy", "best", "difference", "million parameters"]
    assert ours[:4] == ["MTSA", "81.00 ± 1.41", "82.00", "+20.00*"]
    assert baseline[3] == "-"
    assert "from Multi-head: n = 2 runs; tested over runs, Welch's t-test" in printed


def test_columns_of_what_a_model_took(classified, capsys):
    """Of what one of two runs did not measure there is no column of ours."""
    folder = with_seeds(classified, {"accuracy": 80}, {"accuracy": 82})
    costs = [{"inference_s": 1.5, "memory_mb": 500.4, "gpu": None}]
    costs.append({"inference_s": 2.5, "gpu": "NVIDIA H200"})
    for seed, cost in enumerate(costs, 1):
        (folder / f"seed{seed}" / "cost.json").write_text(json.dumps(cost))
    recipe = RECIPES["mtsa/table1_snli"]
    metrics = ("accuracy", "parameters_m", "epoch_s", "inference_s", "memory_mb")
    numbers = ("86.3", "2.9", "180", "1.6", "558")
    entry = Entry(f"{recipe.title}: snli", "MTSA", metrics, numbers, folder)
    (row,) = make_rows(recipe, [entry], "command", recipe.title)
    measured = {"accuracy": [80, 82], "parameters_m": [0.002, 0.002], "inference_s": [1.5, 2.5]}
    assert row["scores"] == measured
    assert row["paper"]["memory_mb"] == 558
    assert row["hardware"].startswith("CPU: ")
    assert row["hardware"].endswith("; inference and memory: NVIDIA H200")
    print_tables(recipe, [row])
    header, line = cells(capsys.readouterr().out)
    assert header[-6:-2] == [
        "paper's seconds of inference",
        "our seconds of inference",
        "paper's MB",
        "our MB",
    ]
    assert line[1:4] == ["86.30", "81.00 ± 1.41", "82.00"]
    assert line[-6:-2] == ["1.60", "2.00 ± 0.71", "558", "-"]


def test_a_column_of_validation(classified):
    """Of the checkpoint that was tested, the best of those that were validated."""
    folder = with_seeds(classified, {"accuracy": 80})
    recipe = RECIPES["mtsa/table2_multinli"]
    metrics = ("accuracy", "valid_accuracy")
    entry = Entry(f"{recipe.title}: snli", "ours", metrics, ("86.9", "87.2"), folder)
    (row,) = make_rows(recipe, [entry], "command", recipe.title)
    assert row["scores"] == {"accuracy": [80], "valid_accuracy": [70]}
    assert row["paper"] == {"accuracy": 86.9, "valid_accuracy": 87.2}


def test_a_table_of_attention_near_the_query(tmp_path, capsys):
    recipe = RECIPES["dman/table5_locality"]
    for seed, percent in ((1, 70.004), (2, 72)):
        (tmp_path / f"seed{seed}").mkdir()
        rows = [{"sublayer": "dman", "window": 1, "layer": 1, "percent": percent}]
        rows += [{"sublayer": "san", "window": 1, "layer": 1, "percent": 9}]
        measured = json.dumps({"rows": rows, "sentences": 10})
        (tmp_path / f"seed{seed}" / "locality.json").write_text(measured)
        made = json.dumps({"hardware": "CPU", "versions": {}, "date": f"2020-01-0{seed}"})
        (tmp_path / f"seed{seed}" / "result.json").write_text(made)
    entry = Entry(recipe.title, "DMAN 1", ("layer 1",), ("76.58", "60.43"), tmp_path)
    (row,) = make_rows(recipe, [entry], "command", recipe.title)
    assert row["scores"] == {"layer 1": [70.0, 72]}
    assert row["paper"] == {"layer 1": 76.58}
    assert (row["hardware"], row["date"]) == ("CPU", "2020-01-02")
    print_tables(recipe, [row])
    assert cells(capsys.readouterr().out)[1] == ["DMAN 1", "76.58", "71.00 ± 1.41", "2"]


def test_fractions_are_tabled_as_published_in_per_cent(classified, tmp_path, capsys):
    scores = {"auc": 0.6812, "mrr": 0.3301, "ndcg5": 0.36, "ndcg10": 0.42}
    folder = with_seeds(classified, scores)
    recipe = RECIPES["da_transformer/table5_mind"]
    entry = Entry(f"{recipe.title}: mind", "NRMS", tuple(scores), ("67.9", "-", "-", "-"), folder)
    (row,) = make_rows(recipe, [entry], "", recipe.title)
    assert row["scores"] == {"auc": [68.12], "mrr": [33.01], "ndcg5": [36.0], "ndcg10": [42.0]}
    print_tables(recipe, [row])
    assert cells(capsys.readouterr().out)[1][:3] == ["NRMS", "67.90", "68.12"]
