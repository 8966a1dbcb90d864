"""The recipes of the papers' tables on classification: what they run, keep and print."""

import json
import shlex
import sys

import forked_commands
import pytest
from fairseq import options, tasks
from forked_recipes import EXAMPLES, commands_by_row

RECIPES = sorted(
    f"{path.parent.name}/{path.stem}"
    for path in EXAMPLES.glob("*/*.sh")
    if "\ndatasets=(" in path.read_text()
)
each_recipe = pytest.mark.parametrize("recipe", RECIPES)
COMPARE = "classifiers/compare"


@pytest.fixture(scope="session")
def tiny_data(run, environment, recipe_run, tmp_path_factory):
    """A folder with a small data set of every name."""
    folder = tmp_path_factory.mktemp("tiny data")
    names = {dataset for dataset, *_ in listed(recipe_run(COMPARE, "--list"))}
    script = EXAMPLES / "classifiers" / "tiny_datasets.py"
    run(environment / "bin" / "python", script, folder, *sorted(names))
    return folder


def listed(printed):
    """What --list printed: data set, row, metrics and the paper's numbers as written."""
    for line in printed.splitlines():
        table, row, metrics, paper = line.split("\t")
        yield table.rpartition(": ")[2], row, metrics.split(","), paper.split(" ")


# --- The commands of all rows ------------------------------------------------------------------


def parsed(words):
    """The arguments of fairseq-train or fairseq-validate; a wrong one ends the test."""
    # Parsing leaves the flags of the architecture in a parser.
    makers = {
        "fairseq-train": options.get_training_parser,
        "fairseq-validate": options.get_validation_parser,
    }
    return options.parse_args_and_arch(makers[words[0]](), words[1:])


@each_recipe
def test_every_row_is_commands_that_fairseq_takes(recipe_run, tiny_data, tmp_path, recipe):
    """All rows on the first data set, the first row on the others."""
    out = tmp_path / "o u t"
    arguments = ["--dry-run", "--seeds", 1, "--folds", 1, "--data", tiny_data, "--out", out]
    commands = commands_by_row(recipe_run(recipe, *arguments))
    assert not out.exists()
    rows = list(listed(recipe_run(recipe, "--list")))
    assert len(commands) == len(rows)
    first_dataset, first_row = rows[0][:2]
    for title, (train, validate, _) in commands.items():
        dataset, row = title.partition(", seed")[0].split(", ", 1)
        if dataset != first_dataset and row != first_row:
            continue
        train, validate = parsed(train), parsed(validate)
        tasks.setup_task(train).build_model(train)
        assert train.data == validate.data
        assert train.data.startswith(f"{tiny_data}/{dataset}")
        assert train.encoder_embed_path == f"{tiny_data}/{dataset}/glove.txt"
        assert (train.task, train.criterion) == (validate.task, validate.criterion)
        assert train.max_positions == validate.max_positions
        assert validate.path == f"{train.save_dir}/checkpoint_best.pt"
        assert validate.valid_subset == "test"


@each_recipe
def test_papers_numbers(recipe_run, recipe):
    """Of each metric one or none; the paper's best model is the last row."""
    rows = list(listed(recipe_run(recipe, "--list")))
    for _, _, metrics, paper in rows:
        assert len(paper) == len(metrics)
        for number in paper:
            assert number == "-" or [float(part) for part in number.split("±")]


# --- The tiny forms ----------------------------------------------------------------------------


@pytest.fixture(scope="session")
def compared(recipe_run, tmp_path_factory):
    """The --out of two models on each kind of data, and what the recipe printed."""
    out = tmp_path_factory.mktemp("compared")
    datasets = "trec,cr,snli,sick,amazon_electronics"
    printed = recipe_run(COMPARE, "--tiny", "--rows", "mpsan", "--datasets", datasets, "--out", out)
    assert "error" not in printed
    return out, printed


def results(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("result.json"))]


def test_tiny_form_on_each_kind_of_data(compared):
    out, printed = compared
    metrics = {
        "trec": {"accuracy", "macro_f1"},
        "cr": {"accuracy", "macro_f1"},
        "snli": {"accuracy", "macro_f1"},
        "sick": {"pearson", "spearman", "mse"},
        "amazon_electronics": {"accuracy", "macro_f1"},
    }
    table = json.loads((out / "compare.json").read_text())
    assert table["tiny"]
    rows = {row["table"].rpartition(": ")[2]: row for row in table["rows"] if row["scores"]}
    assert rows.keys() == metrics.keys()
    for dataset, names in metrics.items():
        runs = results(out / dataset)
        assert len(runs) == (2 if dataset == "cr" else 1)
        for result in runs:
            assert result["scores"].keys() == names | {"loss"}
            assert result["validation"]["scores"].keys() == names | {"loss"}
            assert result["examples"] == {"train": 40, "test": 20}
            assert result["updates"] == 5
            assert result["hardware"].startswith("CPU: ")
        row = rows[dataset]
        for metric, scores in row["scores"].items():
            assert scores == [result["scores"][metric] for result in runs]
        assert row["data"] == (
            f"{dataset}, 20 examples of the test set, 40 of the training set, word vectors of 12 "
            "features"
        )
        assert row["seeds"] == [1]
        assert f"{row['table']}\n" in printed
    assert rows["cr"]["folds"] == [0, 1]


def test_what_is_finished_is_not_done_again(recipe_run, compared):
    out, first = compared
    arguments = ["--tiny", "--rows", "mpsan", "--datasets", "trec,cr", "--out", out]
    second = recipe_run(COMPARE, *arguments)
    assert second.count("finished: ") == 3
    assert "fairseq-" not in second
    table = first[first.index("| row") : first.index("kept in")]
    assert table in second
    assert table in recipe_run(COMPARE, "--table", "--tiny", "--out", out)


def test_scores_are_those_of_the_kept_checkpoint(run, environment, compared, user_dir):
    """It serves after the run, and scores in validation what was recorded."""
    out, _ = compared
    (result,) = results(out / "trec")
    words = shlex.split(result["settings"]["train"])
    classes = words[words.index("--num-classes") + 1]
    printed = run(
        *(environment / "bin" / "fairseq-validate", out / "data" / "trec", "--cpu"),
        *("--user-dir", user_dir, "--task", "sentence_prediction", "--num-classes", classes),
        *("--criterion", "sentence_classification", "--batch-size", 8, "--log-format", "json"),
        *("--path", out / "trec" / "mpsan_classifier" / "seed1" / "checkpoint_best.pt"),
    )
    measured = json.loads(printed[printed.rindex("{") : printed.rindex("}") + 1])
    assert float(measured["valid_accuracy"]) == result["validation"]["scores"]["accuracy"]


def test_ratings_as_numbers(recipe_run, tmp_path):
    """DA's Figure 3: documents of sentences, the best checkpoint that with the least error."""
    arguments = ["--tiny", "--rows", "DA-Transformer", "--epochs", 2, "--out", tmp_path]
    recipe_run("da_transformer/figure3_ratings", *arguments)
    (result,) = results(tmp_path)
    assert result["scores"].keys() == {"loss", "rmse", "mae"}
    flags = result["settings"]["train"].split()
    assert {"--hierarchical", "rating_regression"} <= set(flags)
    assert "--maximize-best-checkpoint-metric" not in flags
    assert result["updates"] == 10


def test_several_runs_at_a_time_by_updates(recipe_run, tmp_path):
    """MTSA's Table 5: so many updates, whatever the epochs."""
    arguments = ["--tiny", "--datasets", "trec", "--rows", "MTSA,DiSA", "--parallel", 2]
    printed = recipe_run("mtsa/table5_sentences", *arguments, "--out", tmp_path)
    runs = results(tmp_path)
    assert [run["updates"] for run in runs] == [4, 4]
    assert all(run["validation"]["updates"] in (2, 4) for run in runs)
    for row in ("MTSA", "DiSA"):
        assert f"trec, {row}, seed 1: epoch 1, 2 updates: " in printed


def test_an_interrupted_run_goes_on(recipe_run, tiny_data, tmp_path):
    arguments = ["--tiny", "--data", tiny_data, "--datasets", "trec", "--rows", "mpsan"]
    for name in ("whole", "interrupted"):
        (tmp_path / name).mkdir()
    recipe_run(COMPARE, *arguments, "--epochs", 2, "--out", tmp_path / "whole")
    (whole,) = results(tmp_path / "whole")

    dry = [*arguments, "--out", tmp_path / "interrupted", "--dry-run"]
    (train, *_), *_ = commands_by_row(recipe_run(COMPARE, *dry, "--epochs", 1)).values()
    forked = forked_commands.run("train", train[1:], tmp_path / "train.log")
    assert forked == 0
    printed = recipe_run(COMPARE, *dry[:-1], "--epochs", 2)
    assert "epoch 1," not in printed and "epoch 2, 10 updates: " in printed
    (resumed,) = results(tmp_path / "interrupted")
    assert resumed["scores"] == whole["scores"]


# --- What is refused ---------------------------------------------------------------------------


def assert_refused(printed, *mentions):
    """The recipe stopped with one line that says why."""
    (error,) = [line for line in printed.splitlines() if "error" in line]
    assert printed.endswith(error + "\n")
    assert [mention for mention in mentions if str(mention) not in error] == []


@pytest.mark.parametrize(
    "arguments, mentions",
    [
        (["--rows", "DiSAN,SAN"], ["'SAN'", "Bi-LSTM, Multi-head, DiSAN, MPSAN"]),
        (["--datasets", "trec,sst"], ["'sst'", "trec cr mpqa subj"]),
        (["--seed", "1"], ["--seed", "--help"]),
        (["--folds"], ["--folds needs a value"]),
        (["--seeds", "0"], ["--seeds 0"]),
        (["--epochs", "-1"], ["--epochs -1"]),
        (["--parallel", "all"], ["--parallel all"]),
        (["--data", "not here"], ["not here/trec", "prepare_classification.py trec"]),
    ],
)
def test_refused(recipe_run, tmp_path, arguments, mentions):
    out = ["--out", tmp_path / "out"]
    printed = recipe_run("mpsan/table6_sentences", *out, *arguments, exit_code=1)
    assert_refused(printed, *mentions)
    assert list(tmp_path.iterdir()) == []


def test_other_settings_are_refused_where_a_run_was_made(recipe_run, compared):
    out, _ = compared
    arguments = [COMPARE, "--tiny", "--rows", "mpsan", "--datasets", "trec", "--out", out]
    folder = out / "trec" / "mpsan_classifier" / "seed1"
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert_refused(recipe_run(*arguments, "--epochs", 7, exit_code=1), folder, "--out")
    assert_refused(recipe_run(*arguments, "--", "--dropout", "0", exit_code=1), folder, "--out")
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_training_that_fails(recipe_run, tiny_data, tmp_path):
    """It is said why, nothing is kept as a result, and it can be begun again."""
    arguments = ["--tiny", "--data", tiny_data, "--datasets", "trec", "--rows", "mpsan"]
    arguments += ["--out", tmp_path]
    mistake = ["--", "--mpsan-masks", "everything"]
    printed = recipe_run(COMPARE, *arguments, *mistake, exit_code=1)
    assert_refused(printed, "everything", "train.log")
    assert results(tmp_path) == []
    recipe_run(COMPARE, *arguments)
    assert len(results(tmp_path)) == 1


def test_one_of_several_runs_at_a_time_that_fails(recipe_run, tiny_data, tmp_path):
    """The others are finished."""
    arguments = ["--tiny", "--data", tiny_data, "--datasets", "trec", "--rows", "mpsan,cnn"]
    arguments += ["--out", tmp_path, "--parallel", 2]
    printed = recipe_run(COMPARE, *arguments, "--", "--mpsan-masks", "everything", exit_code=1)
    assert "everything" in printed
    assert [path.parents[1].name for path in tmp_path.rglob("result.json")] == ["cnn_classifier"]


# --- Results -----------------------------------------------------------------------------------


@pytest.fixture
def classification_results(run):
    """Run classification_results.py."""

    def classification_results(*arguments, **options):
        script = EXAMPLES / "classification_results.py"
        return run(sys.executable, script, *arguments, **options)

    return classification_results


TRAIN_LOG = """\
x |   (embed_tokens): Embedding(100, 30, padding_idx=1)
x | num. shared model params: 5,000 (num. trained: 5,000)
x | INFO | valid | epoch 001 | valid on 'valid' subset | loss 1.5 | accuracy 60 | macro_f1 51 \
| wps 9 | wpb 6.5 | bsz 54.5 | num_updates 78
x | INFO | valid | epoch 002 | valid on 'valid' subset | loss 1.25 | accuracy 70 | macro_f1 62 \
| wps 9 | wpb 6.5 | bsz 54.5 | num_updates 156 | best_accuracy 70
x | INFO | valid | epoch 003 | valid on 'valid' subset | loss 1.5e-05 | accuracy 70 | macro_f1 63 \
| wps 9 | wpb 6.5 | bsz 54.5 | num_updates 234 | best_accuracy 70
x | INFO | valid | epoch 004 | valid on 'valid' subset | loss 1 | accuracy 65 | macro_f1 64 \
| wps 9 | wpb 6.5 | bsz 54.5 | num_updates 312 | best_accuracy 70
x | INFO | train | epoch 004 | loss 1 | num_updates 312 | lr 0.1
"""
TEST_LOG = """\
x | INFO | test | {"test_loss": "0.85", "test_accuracy": "80.6", "test_macro_f1": "68.18", \
"test_wps": "0", "test_wpb": "4258", "test_bsz": "500"}
"""


@pytest.fixture
def finished_run(tmp_path):
    """The folder of a run, the second of two epochs with the best accuracy being the third."""
    folder = tmp_path / "model" / "seed1"
    folder.mkdir(parents=True)
    (folder / "settings").write_text(
        "data nowhere\nseed 1\ntrain --lr 1 --best-checkpoint-metric accuracy\n"
    )
    (folder / "train.log").write_text(TRAIN_LOG)
    (folder / "test.log").write_text(TEST_LOG)
    return folder


def test_record(classification_results, finished_run):
    classification_results("record", finished_run)
    result = json.loads((finished_run / "result.json").read_text())
    assert result["scores"] == {"loss": 0.85, "accuracy": 80.6, "macro_f1": 68.18}
    assert result["examples"] == {"train": None, "test": 500}
    assert (result["updates"], result["word vectors"]) == (312, 30)
    assert (result["parameters"], result["parameters without word vectors"]) == (5000, 2000)
    assert result["validation"] == {
        "epoch": 3,
        "updates": 234,
        "scores": {"loss": 1.5e-05, "accuracy": 70, "macro_f1": 63},
    }
    assert result["settings"]["seed"] == "1"


def test_record_of_a_test_that_failed(classification_results, finished_run):
    (finished_run / "test.log").write_text("killed\n")
    error = classification_results("record", finished_run, exit_code=1)
    (line,) = error.splitlines()
    assert str(finished_run / "test.log") in line
    assert not (finished_run / "result.json").exists()


def test_table(classification_results, finished_run, tmp_path):
    """Mean, sample deviation and best of two seeds; the best error is the lowest."""
    classification_results("record", finished_run)
    result = json.loads((finished_run / "result.json").read_text())
    for seed, accuracy, mse in ((1, 80, 0.5), (2, 83, 0.25)):
        folder = finished_run.with_name(f"seed{seed}")
        folder.mkdir(exist_ok=True)
        kept = {**result, "scores": {"accuracy": accuracy, "mse": mse}}
        kept["settings"] = {**result["settings"], "seed": str(seed)}
        (folder / "result.json").write_text(json.dumps(kept))
    printed = classification_results(
        *("table", "--title", "Scores", "--output", tmp_path / "table.json"),
        *("--row", "trec", "accuracy,mse", "ours", "94.8±0.2 -", finished_run.parent),
        *("--row", "trec", "accuracy,mse", "not run", "- 0.3", tmp_path / "no"),
    )
    assert "\nScores: trec\n" in printed
    table = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in printed.splitlines()
        if line.startswith("| ")
    ]
    numbers = ["94.80 ± 0.20", "81.50 ± 2.12", "83.00", "-", "0.3750 ± 0.1768", "0.2500"]
    assert table == [
        ["row", "paper's accuracy", "ours", "best", "paper's mse", "ours", "best"]
        + ["runs", "parameters"],
        ["ours", *numbers, "2", "2,000"],
        ["not run", "-", "-", "-", "0.3000", "-", "-", "0", "-"],
    ]
    rows = json.loads((tmp_path / "table.json").read_text())["rows"]
    assert rows[0]["paper"] == {"accuracy": 94.8, "mse": None}
    assert rows[0]["scores"] == {"accuracy": [80, 83], "mse": [0.5, 0.25]}
    assert rows[0]["seeds"] == [1, 2]
    assert rows[1]["scores"] == {}
