"""Training on sentences and pairs, and predictions of the trained models."""

import json
import math
import operator
import os
import subprocess
import sys
from pathlib import Path

import forked_commands
import pytest
from scipy import stats

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.inference import prediction

PREDICT = Path(__file__).parents[2] / "scripts" / "predict.py"

TINY = ["--arch", "mpsan_classifier", "--encoder-embed-dim", "16", "--head-dim", "16"]
TINY += ["--optimizer", "adam", "--lr", "0.01", "--batch-size", "16", "--log-format", "json"]
TINY += ["--cpu", "--num-workers", "0", "--no-epoch-checkpoints"]
PAIRS = ["--task", "sentence_pair_prediction"]
STOCK = ["--task", "sentence_prediction"]


@pytest.fixture(scope="module")
def classes(generate):
    """Return the pairs of a validation set, and their classes."""
    folder = generate("snli") / "text"
    columns = [(folder / f"valid.{name}").read_text() for name in ("input0", "input1", "label")]
    *sides, labels = map(str.splitlines, columns)
    return list(zip(*sides, strict=True)), labels


@pytest.fixture(scope="module")
def scores(generate):
    """Return the pairs of a validation set, and their scores."""
    folder = generate("sick")
    sides = [(folder / f"text/valid.input{side}").read_text().splitlines() for side in (0, 1)]
    numbers = (folder / "label/valid.label").read_text().split()
    return list(zip(*sides, strict=True)), list(map(float, numbers))


@pytest.fixture(scope="module")
def train(user_dir, generate, tmp_path_factory):
    """Return ``train(name, *flags)``: the best checkpoint, and the metrics of each validation."""

    def train(name, *flags):
        data, folder = generate(name), tmp_path_factory.mktemp("training")
        arguments = [data, "--user-dir", user_dir, *TINY, "--max-epoch", "4", "--save-dir", folder]
        log = forked_commands.output_of("train", *arguments, *flags)
        return folder / "checkpoint_best.pt", validations(log)

    return train


def validations(log):
    """Return the metrics of each validation by name."""
    lines = (line for line in log.splitlines() if "| valid |" in line)
    return [
        {
            name.removeprefix("valid_"): float(value)
            for name, value in json.loads(line[line.index("{") :]).items()
            if not name.endswith("split")
        }
        for line in lines
    ]


def best(metric):
    """Return flags that keep the checkpoint with the largest metric."""
    return ["--best-checkpoint-metric", metric, "--maximize-best-checkpoint-metric"]


def best_of(checkpoint, metrics, metric):
    """Return the checkpoint and the metrics of its validation."""
    chosen = max(metrics, key=lambda validation: (validation[metric], validation["epoch"]))
    assert read_checkpoint(checkpoint)["extra_state"]["val_loss"] == chosen[metric]
    return checkpoint, chosen


@pytest.fixture(scope="module")
def classifier(train):
    """Return the best checkpoint of a pair classifier and the metrics of its validation."""
    flags = [*PAIRS, "--criterion", "sentence_classification", "--num-classes", "3"]
    checkpoint, metrics = train("snli", *flags, *best("macro_f1"))
    assert len({validation["macro_f1"] for validation in metrics}) > 1
    return best_of(checkpoint, metrics, "macro_f1")


@pytest.fixture(scope="module")
def relatedness(train):
    """Return the best checkpoint of a model of scores and the metrics of its validation."""
    flags = [*PAIRS, "--criterion", "relatedness", "--num-classes", "5"]
    return best_of(*train("sick", *flags, *best("pearson")), "pearson")


def share_of(predicted, labels):
    """Return the percentage of the predicted labels that are right."""
    return 100 * sum(map(operator.eq, predicted, labels)) / len(labels)


def test_predicted_classes_have_the_validated_accuracy(classifier, classes):
    checkpoint, metrics = classifier
    pairs, labels = classes
    text = "".join("\t".join(pair) + "\n" for pair in pairs)
    words, options = [sys.executable, PREDICT, checkpoint], {"text": True, "cwd": "/"}
    lines = subprocess.check_output(words, input=text, **options).splitlines()
    names, probabilities = zip(*(line.split("\t") for line in lines), strict=True)
    assert metrics["accuracy"] == round(share_of(names, labels), 2)
    assert all(1 / 3 <= float(probability) <= 1 for probability in probabilities)


def test_predicted_scores_have_the_validated_correlations(relatedness, scores):
    checkpoint, metrics = relatedness
    pairs, true = scores
    results = prediction.load(checkpoint)(pairs, batch_size=5)
    predicted = [result.score for result in results]
    for result in results:
        mean = sum(int(name) * share for name, share in result.probabilities.items())
        assert result.score == pytest.approx(mean)
        assert result.label is None
    assert metrics["pearson"] == pytest.approx(stats.pearsonr(predicted, true)[0], abs=2e-4)
    assert metrics["spearman"] == pytest.approx(stats.spearmanr(predicted, true)[0], abs=2e-4)
    mse = sum((x - y) ** 2 for x, y in zip(predicted, true, strict=True)) / len(true)
    assert metrics["mse"] == pytest.approx(mse, abs=2e-4)


def test_ratings_with_the_stock_task(train, scores):
    flags = [*STOCK, "--criterion", "rating_regression", "--num-classes", "1"]
    checkpoint, metrics = train("sick", *flags, "--best-checkpoint-metric", "rmse")
    chosen = min(metrics, key=lambda validation: (validation["rmse"], -validation["epoch"]))
    pairs, true = scores
    results = prediction.load(checkpoint)(pairs)
    errors = [abs(result.score - score) for result, score in zip(results, true, strict=True)]
    rmse = math.sqrt(sum(error**2 for error in errors) / len(errors))
    assert chosen["rmse"] == pytest.approx(rmse, abs=2e-4)
    assert chosen["mae"] == pytest.approx(sum(errors) / len(errors), abs=2e-4)
    assert results[0].label is None and results[0].probabilities == {}


def test_stock_task_and_criterion(train, classes):
    flags = [*STOCK, "--criterion", "sentence_prediction", "--num-classes", "3"]
    checkpoint, metrics = train("snli", *flags, *best("accuracy"))
    pairs, labels = classes
    names = [result.label for result in prediction.load(checkpoint)(pairs)]
    assert max(entry["accuracy"] for entry in metrics) == round(share_of(names, labels), 1)


@pytest.mark.parametrize("kind", ["classifier", "relatedness"])
def test_two_processes_measure_the_metrics_of_one(kind, request, user_dir, tmp_path):
    checkpoint, alone = request.getfixturevalue(kind)
    cfg = read_checkpoint(checkpoint)["cfg"]
    arguments = [cfg["task"]["data"], "--user-dir", user_dir, *TINY, *PAIRS]
    arguments += ["--criterion", cfg["criterion"]["_name"]]
    arguments += ["--num-classes", cfg["task"]["num_classes"]]
    # an update that changes nothing, then a validation
    arguments += ["--finetune-from-model", checkpoint, "--lr", "0", "--max-update", "1"]
    arguments += ["--no-save", "--save-dir", tmp_path, "--batch-size", "5"]
    arguments += ["--distributed-world-size", "2", "--distributed-no-spawn"]
    arguments += ["--distributed-backend", "gloo", "--ddp-backend", "legacy_ddp"]
    arguments += ["--distributed-init-method", f"file://{tmp_path / 'rendezvous'}"]
    log = tmp_path / "log"
    processes = [
        forked_commands.start("train", [*arguments, "--distributed-rank", rank], output)
        for rank, output in enumerate([log, os.devnull])
    ]
    for process in processes:
        process.join()
        assert process.exitcode == 0, log.read_text()
    (metrics,) = validations(log.read_text())
    for metric in {"accuracy", "macro_f1", "pearson", "spearman", "mse", "loss"} & alone.keys():
        assert metrics[metric] == pytest.approx(alone[metric], abs=2e-4), metric


def test_validation_writes_the_predictions(classifier, classes, user_dir, tmp_path):
    """Unpatched, fairseq accepts --results-path and writes nothing."""
    checkpoint, metrics = classifier
    data = read_checkpoint(checkpoint)["cfg"]["task"]["data"]
    arguments = [data, "--user-dir", user_dir, *PAIRS, "--num-classes", "3", "--cpu"]
    arguments += ["--criterion", "sentence_classification", "--batch-size", "5"]
    results = tmp_path / "new" / "results"
    arguments += ["--path", checkpoint, "--results-path", results]
    forked_commands.output_of("validate", *arguments)
    lines = (results / "predictions-valid.txt").read_text().splitlines()
    predicted, right = zip(*(line.split("\t") for line in lines), strict=True)
    assert list(right) == classes[1]
    assert metrics["accuracy"] == round(share_of(predicted, right), 2)


@pytest.mark.parametrize(
    "line, reason",
    [(b"a\n", "sentences, not 1"), (b"a\tb\tc\n", "sentences, not 3"), (b"\xff\ta\n", "UTF-8")],
)
def test_a_bad_line_is_named_and_answered_with_nothing(classifier, line, reason):
    with pytest.raises(UsageError, match="^text 2: the sentence is empty"):
        prediction.load(classifier[0])([("a", "b"), ("a", " ")])
    lines = [b"a\tb\n", b"\n", b"a\t\n", b" \tb\n", b"c\td\r\n", line, b"a\tb\n"]
    predictor = prediction.load(classifier[0])
    (results,) = predictor.read_groups([lines], "x.txt")
    blank = [result == prediction.NOTHING for result in results]
    assert blank == [False, True, True, True, False, True, False]
    (warning,) = predictor.notes.warnings("x.txt")
    assert reason in warning and warning.endswith("(line 6)")
