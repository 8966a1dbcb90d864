"""Recipes of classification from the data to the table, in their tiny form."""

import json
import shlex

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.export.checkpoint import export
from fairseq_posattn.inference import prediction
from fairseq_posattn.training.training_log import TrainingLog

COMPARE = "classifiers/compare"
DATASETS = ("trec", "cr", "snli", "sick", "amazon_electronics")  # one of each kind


@pytest.fixture(scope="module")
def tiny_data(run, environment, tmp_path_factory):
    """A folder with a small data set of each kind."""
    folder = tmp_path_factory.mktemp("tiny data")
    program = ["-m", "fairseq_posattn.recipes.tiny", "datasets"]
    run(environment / "bin" / "python", *program, folder, *DATASETS)
    return folder


def results(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("result.json"))]


def table_of(printed):
    return printed[printed.index("\n| row") : printed.index("\nour: ")]


def test_tiny_form_on_each_kind_of_data(recipe_run, run, environment, user_dir, tmp_path):
    """Two at a time; what is finished is not done again; the kept checkpoint scores as recorded."""
    arguments = [COMPARE, "--tiny", "--rows", "mpsan", "--datasets", ",".join(DATASETS)]
    arguments += ["--out", tmp_path]
    printed = recipe_run(*arguments, "--parallel", 2)
    metrics = dict.fromkeys(DATASETS, {"accuracy", "macro_f1"})
    metrics["sick"] = {"pearson", "spearman", "mse"}
    table = json.loads((tmp_path / "compare.json").read_text())
    assert table["tiny"]
    rows = {row["table"].rpartition(": ")[2]: row for row in table["rows"] if row["scores"]}
    assert rows.keys() == metrics.keys()
    for dataset, names in metrics.items():
        runs = results(tmp_path / dataset)
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

    second = recipe_run(*arguments)
    assert second.count(" is finished: ") == 6
    assert "fairseq-" not in second
    assert table_of(second) == table_of(printed)

    with open(tmp_path / "data" / "sick" / "input0" / "dict.txt", "a") as dictionary:
        dictionary.write("another 1\n")
    replaced = recipe_run(*arguments, refused=True)
    assert "/seed1 was trained on other data than " in replaced

    (result,) = results(tmp_path / "trec")
    (checkpoint,) = tmp_path.glob("trec/*/seed1/checkpoint_best.pt")
    words = shlex.split(result["settings"]["train"])
    classes = words[words.index("--num-classes") + 1]
    printed = run(
        *(environment / "bin" / "fairseq-validate", tmp_path / "data" / "trec", "--cpu"),
        *("--user-dir", user_dir, "--task", "sentence_prediction", "--num-classes", classes),
        *("--criterion", "sentence_classification", "--batch-size", 8, "--log-format", "json"),
        *("--path", checkpoint),
    )
    measured = json.loads(printed[printed.rindex("{") : printed.rindex("}") + 1])
    assert float(measured["valid_accuracy"]) == result["validation"]["scores"]["accuracy"]


def test_two_seeds_are_compared_with_the_baseline(recipe_run, tiny_data, tmp_path):
    """Over the examples, whose predictions the runs kept, and over the runs."""
    arguments = [COMPARE, "--tiny", "--rows", "mpsan,transformer", "--datasets", "trec"]
    arguments += ["--seeds", 2, "--out", tmp_path]
    printed = recipe_run(*arguments, "--parallel", 2)
    assert "difference from transformer: n = 20 sentences, 2 runs; tested over " in printed
    table = json.loads((tmp_path / "compare.json").read_text())
    rows = {row["row"]: row for row in table["rows"] if row["scores"]}
    found = rows["mpsan"]["compared"]["metrics"]["accuracy"]
    means = [sum(row["scores"]["accuracy"]) / 2 for row in (rows["mpsan"], rows["transformer"])]
    assert found["difference"] == pytest.approx(means[0] - means[1], abs=0.011)
    assert found["interval"][0] <= found["difference"] <= found["interval"][1]


def test_ratings_as_numbers(recipe_run, tiny_data, tmp_path):
    """DA's Figure 3: documents of sentences, the best checkpoint that with the least error."""
    arguments = ["--tiny", "--rows", "DA-Transformer", "--epochs", 2, "--data", tiny_data]
    recipe_run("da_transformer/figure3_ratings", *arguments, "--out", tmp_path)
    (result,) = results(tmp_path)
    assert result["scores"].keys() == {"loss", "rmse", "mae"}
    flags = result["settings"]["train"].split()
    assert {"--hierarchical", "rating_regression"} <= set(flags)
    assert "--maximize-best-checkpoint-metric" not in flags
    assert result["updates"] == 10


def test_a_language_model(recipe_run, tmp_path):
    """MTSA's Table 2: its checkpoint predicts where the language model's folder is gone."""
    name, rows = "mtsa/table2_transfer", ["--rows", "Transfer + MTSA", "--datasets", "snli"]
    recipe_run(name, "--tiny", *rows, "--out", tmp_path)
    (result,) = results(tmp_path / "snli")
    assert result["scores"].keys() == {"loss", "accuracy", "macro_f1"}
    assert "--language-model-weight 0.3" in result["settings"]["train"]
    (tmp_path / "data" / "openai-gpt").rename(tmp_path / "gone")
    (checkpoint,) = tmp_path.glob("snli/*/seed1/checkpoint_best.pt")
    saved = load_checkpoint_to_cpu(str(checkpoint))["model"]
    predictor = prediction.load(str(checkpoint), device="cpu")
    trained = predictor.model.encoder.language_model.state_dict()
    assert len(trained) == 2 + 2 * 12  # embeddings, and two blocks
    for weight, tensor in trained.items():
        assert torch.equal(saved[f"encoder.language_model.{weight}"], tensor)
    assert predictor([("BA cue0", "be ba")])[0].label in predictor.names
    assert not predictor.unknown.unknown
    with pytest.raises(UsageError, match="a model with --language-model cannot be exported"):
        export(str(checkpoint), str(tmp_path / "exported"))
    refused = recipe_run(name, *rows, "--data", tmp_path / "data", "--out", tmp_path, refused=True)
    assert "openai-gpt: there is no config.json, no vocab.json, no merges.txt, no model." in refused


def test_roles(recipe_run, tmp_path):
    """MTSA's Table 4: of one data set two test sets, and what validation had at its best."""
    recipe_run("mtsa/table4_roles", "--tiny", "--rows", "MTSA", "--out", tmp_path)
    names = ["f1", "precision", "recall", "complete"]
    rows = json.loads((tmp_path / "table4_roles.json").read_text())["rows"]
    measured = {row["table"].rpartition(": ")[2]: row for row in rows if row["scores"]}
    for dataset, splits in {"conll05": ["", "test1_", "valid_"], "ewt": ["", "valid_"]}.items():
        scores = measured[dataset]["scores"]
        assert list(scores) == [split + name for split in splits for name in names]
        assert all(0 <= found <= 100 for (found,) in scores.values())
    (ewt,) = results(tmp_path / "ewt")
    assert measured["ewt"]["scores"]["valid_f1"] == [ewt["validation"]["scores"]["f1"]]
    assert measured["ewt"]["paper"] == dict.fromkeys(measured["ewt"]["scores"])
    assert measured["conll05"]["paper"]["valid_f1"] == 83.6


def test_news(recipe_run, tmp_path):
    """DA-Transformer's Table 5: a model, and popularity, which is not trained."""
    rows = "DA-Transformer,Popularity"
    arguments = ["--tiny", "--rows", rows, "--seeds", 1, "--out", tmp_path]
    recipe_run("da_transformer/table5_mind", *arguments)
    table = json.loads((tmp_path / "table5_mind.json").read_text())
    runs = {row["row"]: row["scores"] for row in table["rows"] if row["scores"]}
    assert {name: len(scores["auc"]) for name, scores in runs.items()} == {
        "DA-Transformer": 1,
        "Popularity": 1,
    }
    for scores in runs.values():
        assert list(scores) == ["auc", "mrr", "ndcg5", "ndcg10"]
        assert all(0 < score <= 100 for found in scores.values() for score in found)


def test_by_updates(recipe_run, tiny_data, tmp_path):
    """MTSA's Table 5: so many updates, whatever the epochs."""
    arguments = ["--tiny", "--datasets", "trec", "--rows", "MTSA", "--data", tiny_data]
    printed = recipe_run("mtsa/table5_sentences", *arguments, "--out", tmp_path)
    (result,) = results(tmp_path)
    assert result["updates"] == 4
    assert result["validation"]["updates"] in (2, 4)
    assert {path.stem for path in tmp_path.glob("trec/*/*/checkpoint*.pt")} == {
        "checkpoint_best",
        "checkpoint_last",
    }
    assert "trec, MTSA, seed 1 (1 of 1): update 2 of 4: validation loss " in printed


def test_one_of_several_runs_at_a_time_that_fails(recipe_run, tiny_data, tmp_path):
    """The others at work are finished; what failed is said, and is begun again."""
    arguments = [
        COMPARE,
        "--tiny",
        "--data",
        tiny_data,
        "--datasets",
        "trec",
        "--rows",
        "mpsan,cnn",
    ]
    arguments += ["--out", tmp_path, "--parallel", 2]
    error = recipe_run(*arguments, "--", "--mpsan-masks", "everything", refused=True)
    last = error.splitlines()[-1]
    assert "everything" in last and "train.log" in last
    assert [path.parents[1].name[:4] for path in tmp_path.rglob("result.json")] == ["cnn_"]


def test_data_that_is_not_there(recipe_run, tmp_path):
    arguments = ["--data", tmp_path / "no", "--out", tmp_path / "out", "--cpu"]
    error = recipe_run("mpsan/table1_sst", *arguments, refused=True)
    command = (
        f"posattn prepare classification sst5 --glove 6B.300d --dest {tmp_path}/no/sst5"
        " --weighted-phrases"
    )
    assert f"no data in {tmp_path}/no/sst5/input0" in error and command in error
    assert list(tmp_path.iterdir()) == []


def test_what_a_model_costs_is_measured_after_another_table_trained_it(
    recipe_run, tiny_data, tmp_path
):
    """MTSA's Tables 2 and 1 share their models; the second has columns of time and memory."""
    arguments = ["--tiny", "--rows", "MTSA", "--datasets", "snli", "--data", tiny_data]
    arguments += ["--out", tmp_path]
    recipe_run("mtsa/table2_multinli", *arguments)
    (before,) = results(tmp_path)
    printed = recipe_run("mtsa/table1_snli", *arguments)
    assert "fairseq-" not in printed and "analysis cost" in printed
    assert results(tmp_path) == [before]
    rows = json.loads((tmp_path / "table1_snli.json").read_text())["rows"]
    (row,) = [row for row in rows if row["scores"]]
    assert row["scores"]["accuracy"] == [before["scores"]["accuracy"]]
    assert row["scores"]["train_accuracy"] == [before["scores"]["train_accuracy"]]
    assert row["scores"]["memory_mb"][0] > 0
    assert recipe_run("mtsa/table1_snli", *arguments).count(" is finished: ") == 1


def test_a_learning_rate_is_chosen_by_what_chooses_checkpoints(recipe_run, tiny_data, tmp_path):
    """For each data set by itself, on the first fold."""
    arguments = ["--tiny", "--datasets", "cr,sick", "--rows", "mpsan", "--data", tiny_data]
    tune = ["--tune", "1e-5,1e-1", "--tune-updates", 7]
    printed = recipe_run(COMPARE, *arguments, *tune, "--out", tmp_path, "--parallel", 2)
    table = json.loads((tmp_path / "compare.json").read_text())
    rows = {row["table"].rpartition(": ")[2]: row for row in table["rows"] if row["scores"]}
    assert rows.keys() == {"cr", "sick"}
    for name, metric in (("cr", "accuracy"), ("sick", "pearson")):
        tuning = rows[name]["tuning"]
        assert tuning["metric"] == f"highest validation {metric}"
        assert tuning.get("fold") == (0 if name == "cr" else None)
        logs = {
            "0.1" if "-0.1-" in path.parents[1].name else "1e-05": TrainingLog(path)
            for path in (tmp_path / "tuning" / name).glob("*/*seed1/train.log")
        }
        measured = {rate: log.points(metric, "valid")[-1] for rate, log in logs.items()}
        assert {updates for updates, _ in measured.values()} == {7}
        assert tuning["tried"] == {rate: value for rate, (_, value) in measured.items()}
        assert tuning["tried"][str(tuning["chosen"])] == max(tuning["tried"].values())
        (kept,) = (tmp_path / name).glob("*/tuning.json")
        folds = {"fold0-seed1", "fold1-seed1"} if name == "cr" else {"seed1"}
        assert {path.name for path in kept.parent.iterdir()} == {"tuning.json", *folds}
    assert "after 7 updates (seed 1, fold 0)\n" in printed
    assert list(tmp_path.glob("tuning/**/*.pt")) == []
