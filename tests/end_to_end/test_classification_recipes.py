"""Recipes of classification from the data to the table, in their tiny form."""

import json
import random

import pytest
import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from forked_recipes import measured_rows, table_of

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.export.checkpoint import export
from fairseq_posattn.inference import prediction
from fairseq_posattn.recipes.tiny import make_dataset

COMPARE = "classifiers/compare"


@pytest.fixture(scope="module")
def tiny_data(tmp_path_factory):
    """Return a folder with a small data set of each kind."""
    folder = tmp_path_factory.mktemp("tiny data")
    for name in ("trec", "snli", "amazon_electronics"):
        make_dataset(name, folder / name, random.Random(1))
    return folder


@pytest.fixture
def tiny(recipe_run, tiny_data, tmp_path):
    """Run rows of a recipe in its tiny form; return what is printed."""

    def tiny(recipe, rows, datasets="", *arguments, data=tiny_data, **options):
        common = ["--tiny", "--rows", rows, "--out", tmp_path]
        common += ["--datasets", datasets] if datasets else []
        common += ["--data", data] if data else []
        return recipe_run(recipe, *common, *arguments, **options)

    return tiny


def results(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("result.json"))]


def by_data(path):
    """Return the measured rows of a table, by data set."""
    return {row["table"].rpartition(": ")[2]: row for row in measured_rows(path)}


def test_each_kind_of_data_trains_and_is_scored(tiny, tmp_path):
    """Runs go two at a time and are not repeated. Other tests train on sentences and pairs."""
    datasets = ("cr", "sick", "amazon_electronics")
    arguments = (COMPARE, "mpsan", ",".join(datasets))
    printed = tiny(*arguments, "--parallel", 2, data=None)
    metrics = dict.fromkeys(datasets, {"accuracy", "macro_f1"})
    metrics["sick"] = {"pearson", "spearman", "mse"}
    assert json.loads((tmp_path / "compare.json").read_text())["tiny"]
    rows = by_data(tmp_path / "compare.json")
    assert rows.keys() == metrics.keys()
    for dataset, names in metrics.items():
        runs, row = results(tmp_path / dataset), rows[dataset]
        assert len(runs) == (2 if dataset == "cr" else 1)
        for result in runs:
            assert result["scores"].keys() == names | {"loss"}
            assert result["validation"]["scores"].keys() == names | {"loss"}
            assert result["examples"] == {"train": 40, "test": 20}
            assert result["updates"] == 5
            assert result["hardware"].startswith("CPU: ")
        for metric, scores in row["scores"].items():
            assert scores == [result["scores"][metric] for result in runs]
        sizes = "20 examples of the test set, 40 of the training set"
        if dataset == "cr":
            sizes = "40 examples of the test set in 2 folds, 40 of the training set in the last"
        assert row["data"] == f"{dataset}, {sizes}, word vectors of 12 features"
        assert row["seeds"] == [1]
        assert f"{row['table']}\n" in printed
    assert rows["cr"]["folds"] == [0, 1]

    second = tiny(*arguments, data=None)
    assert second.count(" is finished: ") == 4
    assert "fairseq-" not in second
    assert table_of(second) == table_of(printed)

    with open(tmp_path / "data" / "sick" / "input0" / "dict.txt", "a") as dictionary:
        dictionary.write("another 1\n")
    for table, refused in ([], True), (["--table"], False):
        replaced = tiny(*arguments, *table, data=None, refused=refused)
        assert "/seed1 was trained on other data than " in replaced


def test_a_language_model_is_stored_in_the_checkpoint(recipe_run, tiny, tmp_path):
    """The checkpoint predicts without the folder of the language model."""
    name, row = "mtsa/table2_transfer", "Transfer + MTSA"
    tiny(name, row, "snli", data=None)
    (result,) = results(tmp_path / "snli")
    assert result["scores"].keys() == {"loss", "accuracy", "macro_f1"}
    assert "--language-model-weight 0.3" in result["settings"]["train"]
    data = tmp_path / "data"
    (data / "openai-gpt").rename(tmp_path / "gone")
    (checkpoint,) = tmp_path.glob("snli/*/seed1/checkpoint_best.pt")
    saved = load_checkpoint_to_cpu(str(checkpoint))["model"]
    predictor = prediction.load(str(checkpoint), device="cpu")
    trained = predictor.model.encoder.language_model.state_dict()
    assert len(trained) == 2 + 2 * 12  # embeddings, and two blocks
    for weight, tensor in trained.items():
        assert torch.equal(saved[f"encoder.language_model.{weight}"], tensor)
    assert predictor([("BA cue0", "be ba")])[0].label in predictor.names
    assert not predictor.unknown.unknown
    with pytest.warns(UserWarning, match="1 text was cut to the 63 tokens that the model reads"):
        predictor([("ba " * 80, "be ba")])
    with pytest.raises(UsageError, match="a model with --language-model cannot be exported"):
        export(str(checkpoint), str(tmp_path / "exported"))
    arguments = ["--rows", row, "--datasets", "snli", "--data", data, "--out", tmp_path]
    refused = recipe_run(name, *arguments, refused=True)
    assert "openai-gpt: there is no config.json, no vocab.json, no merges.txt, no model." in refused


def test_a_failed_run_does_not_end_the_others(tiny, tmp_path):
    """Later runs are tried, too; the table has the finished runs."""
    options = ["--", "--mpsan-masks", "everything"]
    error = tiny(COMPARE, "mpsan,cnn", "trec", *options, refused=True)
    last = error.splitlines()[-1]
    assert "everything" in last and "train.log" in last
    assert last.startswith("trec, mpsan, seed 1: 1 of 2 runs failed: ")
    assert "\n| cnn " in error
    assert [path.parents[1].name[:4] for path in tmp_path.rglob("result.json")] == ["cnn_"]


def test_costs_of_a_model_that_another_table_trained(tiny, tmp_path):
    """MTSA's Tables 2 and 1 share their models; the second has columns of time and memory."""
    tiny("mtsa/table2_multinli", "MTSA", "snli")
    (before,) = results(tmp_path)
    printed = tiny("mtsa/table1_snli", "MTSA", "snli")
    assert "fairseq-" not in printed and "analysis cost" in printed
    assert results(tmp_path) == [before]
    (row,) = measured_rows(tmp_path / "table1_snli.json")
    for metric in ("accuracy", "train_accuracy"):
        assert row["scores"][metric] == [before["scores"][metric]]
    assert row["scores"]["memory_mb"][0] > 0
    assert tiny("mtsa/table1_snli", "MTSA", "snli").count(" is finished: ") == 1
