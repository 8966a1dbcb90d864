"""Training on sentences and pairs, and predictions of the trained models."""

import json
import math
import os
import random
import sys
from pathlib import Path

import forked_commands
import pytest
from scipy import stats

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint
from fairseq_posattn.inference import prediction

PREDICT = Path(__file__).parents[2] / "scripts" / "predict.py"

TINY = ["--arch", "mpsan_classifier", "--encoder-embed-dim", "16", "--head-dim", "16"]
TINY += ["--optimizer", "adam", "--lr", "0.01", "--batch-size", "16", "--log-format", "json"]
TINY += ["--cpu", "--num-workers", "0", "--no-epoch-checkpoints"]
PAIRS = ["--task", "sentence_pair_prediction"]
STOCK = ["--task", "sentence_prediction"]


def lines_of(generator, count):
    """Return sentences of two to seven letters."""
    letters = ("abcdefgh"[: generator.randint(3, 8)] for _ in range(count))
    return [" ".join(generator.choices(some, k=generator.randint(2, 7))) for some in letters]


def split_of(generator, count):
    """Return pairs with their overlap as a score from 1 to 5 and as a label."""
    first, second = lines_of(generator, count), lines_of(generator, count)
    scores, labels = [], []
    for one, other in zip(first, second, strict=True):
        one, other = set(one.split()), set(other.split())
        scores.append(round(1 + 4 * len(one & other) / len(one | other), 1))
        labels.append("little" if scores[-1] < 2 else "some" if scores[-1] < 3 else "much")
    return {"input0": first, "input1": second, "score": scores, "label": labels}


@pytest.fixture(scope="module")
def splits():
    generator = random.Random(1)
    return {"train": split_of(generator, 120), "valid": split_of(generator, 37)}


@pytest.fixture(scope="module")
def data(splits, write_sentence_data, tmp_path_factory):
    """Return ``data(*columns)``, which writes a data folder of these columns only."""

    def make(*columns):
        folder = tmp_path_factory.mktemp("data") / "-".join(columns)
        chosen = {split: {name: lines[name] for name in columns} for split, lines in splits.items()}
        return write_sentence_data(folder, chosen)

    return make


@pytest.fixture(scope="module")
def train(user_dir, tmp_path_factory):
    """Return ``train(data, *flags)``: the best checkpoint, and the metrics of each validation."""

    def train(data, *flags):
        folder = tmp_path_factory.mktemp("training")
        arguments = [data, "--user-dir", user_dir, *TINY, "--max-epoch", "4", "--save-dir", folder]
        log = folder / "log"
        assert forked_commands.run("train", [*arguments, *flags], log) == 0, log.read_text()
        return folder / "checkpoint_best.pt", validations(log)

    return train


def validations(log):
    """Return the metrics of each validation by name."""
    lines = (line for line in log.read_text().splitlines() if "| valid |" in line)
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
    chosen = max(metrics, key=lambda found: (found[metric], found["epoch"]))
    assert read_checkpoint(checkpoint)["extra_state"]["val_loss"] == chosen[metric]
    return checkpoint, chosen


@pytest.fixture(scope="module")
def classifier(data, train):
    """Return the best checkpoint of a pair classifier and the metrics of its validation."""
    flags = [*PAIRS, "--criterion", "sentence_classification", "--num-classes", "3"]
    checkpoint, metrics = train(data("input0", "input1", "label"), *flags, *best("macro_f1"))
    assert len({found["macro_f1"] for found in metrics}) > 1
    return best_of(checkpoint, metrics, "macro_f1")


@pytest.fixture(scope="module")
def relatedness(data, train):
    """Return the best checkpoint of a model of scores and the metrics of its validation."""
    flags = [*PAIRS, "--criterion", "relatedness", "--num-classes", "5"]
    checkpoint, metrics = train(data("input0", "input1", "score"), *flags, *best("pearson"))
    return best_of(checkpoint, metrics, "pearson")


def as_pairs(columns):
    return list(zip(columns["input0"], columns["input1"], strict=True))


def test_predicted_classes_have_the_validated_accuracy(classifier, splits, run):
    checkpoint, metrics = classifier
    text = "".join(f"{one}\t{other}\n" for one, other in as_pairs(splits["valid"]))
    found = run(sys.executable, PREDICT, checkpoint, stdin=text, cwd="/").splitlines()
    pairs = zip(found, splits["valid"]["label"], strict=True)
    right = sum(line.split("\t")[0] == label for line, label in pairs)
    assert metrics["accuracy"] == round(100 * right / len(found), 2)
    assert all(1 / 3 <= float(line.split("\t")[1]) <= 1 for line in found)


def test_predicted_scores_have_the_validated_correlations(relatedness, splits):
    checkpoint, metrics = relatedness
    found = prediction.load(checkpoint)(as_pairs(splits["valid"]), batch_size=5)
    scores, true = [one.score for one in found], splits["valid"]["score"]
    for one in found:
        mean = sum(int(name) * share for name, share in one.probabilities.items())
        assert one.score == pytest.approx(mean)
        assert one.label is None
    assert metrics["pearson"] == pytest.approx(stats.pearsonr(scores, true)[0], abs=2e-4)
    assert metrics["spearman"] == pytest.approx(stats.spearmanr(scores, true)[0], abs=2e-4)
    mse = sum((one - other) ** 2 for one, other in zip(scores, true, strict=True)) / len(true)
    assert metrics["mse"] == pytest.approx(mse, abs=2e-4)


def test_ratings_with_the_stock_task(data, train, splits):
    flags = [*STOCK, "--criterion", "rating_regression", "--num-classes", "1"]
    checkpoint, metrics = train(data("input0", "score"), *flags, "--best-checkpoint-metric", "rmse")
    chosen = min(metrics, key=lambda found: (found["rmse"], -found["epoch"]))
    found = prediction.load(checkpoint)(splits["valid"]["input0"])
    errors = [
        abs(one.score - score) for one, score in zip(found, splits["valid"]["score"], strict=True)
    ]
    rmse = math.sqrt(sum(error**2 for error in errors) / len(errors))
    assert chosen["rmse"] == pytest.approx(rmse, abs=2e-4)
    assert chosen["mae"] == pytest.approx(sum(errors) / len(errors), abs=2e-4)
    assert found[0].label is None and found[0].probabilities == {}


def test_stock_task_and_criterion(data, train, splits):
    flags = [*STOCK, "--criterion", "sentence_prediction", "--num-classes", "3"]
    folder = data("input0", "input1", "label")
    checkpoint, metrics = train(folder, *flags, *best("accuracy"))
    found = prediction.load(checkpoint)(as_pairs(splits["valid"]))
    labels = splits["valid"]["label"]
    right = sum(one.label == label for one, label in zip(found, labels, strict=True))
    assert max(one["accuracy"] for one in metrics) == round(100 * right / len(found), 1)


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
    (metrics,) = validations(log)
    for metric in {"accuracy", "macro_f1", "pearson", "spearman", "mse", "loss"} & alone.keys():
        assert metrics[metric] == pytest.approx(alone[metric], abs=2e-4), metric


def test_validation_writes_the_predictions(classifier, splits, user_dir, tmp_path):
    """Unpatched, fairseq accepts --results-path and writes nothing."""
    checkpoint, metrics = classifier
    data = read_checkpoint(checkpoint)["cfg"]["task"]["data"]
    arguments = [data, "--user-dir", user_dir, *PAIRS, "--num-classes", "3", "--cpu"]
    arguments += ["--criterion", "sentence_classification", "--batch-size", "5"]
    log, results = tmp_path / "log", tmp_path / "new" / "results"
    arguments += ["--path", checkpoint, "--results-path", results]
    assert forked_commands.run("validate", arguments, log) == 0, log.read_text()
    lines = (results / "predictions-valid.txt").read_text().splitlines()
    predicted, right = zip(*(line.split("\t") for line in lines), strict=True)
    assert list(right) == splits["valid"]["label"]
    share = sum(one == other for one, other in zip(predicted, right, strict=True)) / len(right)
    assert metrics["accuracy"] == round(100 * share, 2)


@pytest.mark.parametrize(
    "texts, complaint",
    [
        ([("a", "b"), ("a", " ")], "text 2: the sentence is empty"),
        (["a"], "text 1: the model needs a pair of sentences, not 1"),
        ([("a", "b " * 600)], "text 1: 601 tokens with the end symbol"),
    ],
)
def test_bad_texts_are_named(classifier, texts, complaint):
    with pytest.raises(UsageError, match=f"^{complaint}"):
        prediction.load(classifier[0])(texts)


@pytest.mark.parametrize(
    "line, reason",
    [
        (b"a\n", "of sentences, not 1"),
        (b"a\tb\tc\n", "of sentences, not 3"),
        (b"\xff\ta\n", "not UTF-8"),
    ],
)
def test_a_bad_line_is_named_after_the_predictions_before_it(classifier, line, reason):
    lines = [b"a\tb\n", b"\n", b"a\t\n", b" \tb\n", b"c\td\r\n", line, b"a\tb\n"]
    found = prediction.load(classifier[0]).read_groups([lines], "x.txt")
    blank = [one == prediction.NOTHING for one in next(found)]
    assert blank == [False, True, True, True, False]
    with pytest.raises(UsageError, match=f"^x.txt:6: .*{reason}"):
        next(found)
