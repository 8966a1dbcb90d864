import json
import random
from statistics import fmean

import numpy
import pytest
from scipy.stats import pearsonr, spearmanr
from sklearn.metrics import accuracy_score, f1_score

from fairseq_posattn.scoring.commands.score import score
from fairseq_posattn.scoring.labels import accuracy, macro_f1, mcnemar, numeric_scores, read_labels
from fairseq_posattn.scoring.result import metric_of
from fairseq_posattn.scoring.significance import Group, compare

pytestmark = pytest.mark.usefixtures("few_draws")

CLASSES = ("bad", "so so", "good")


def predictions(labels, share, seed):
    """Return labels, a share of which is replaced at random."""
    generator = random.Random(seed)
    return [generator.choice(CLASSES) if generator.random() < share else label for label in labels]


@pytest.fixture(scope="module")
def labels():
    return random.Random(1).choices(CLASSES, k=60)


def test_accuracy_and_macro_f1_equal_scikit_learn(labels):
    predicted = [*predictions(labels, 0.5, seed=2)[:-1], "never true"]
    (result,) = accuracy([predicted], labels).scores
    assert result == pytest.approx(100 * accuracy_score(labels, predicted))
    expected = f1_score(labels, predicted, average="macro", zero_division=0)
    classes = [*CLASSES, "never true", "of the baseline alone"]
    (result,) = macro_f1([predicted], labels, classes).scores
    assert result == pytest.approx(100 * expected)


def test_a_blank_prediction_is_wrong_but_no_class(files, labels, write, as_json):
    predicted = [*labels[:-2], "", ""]
    result = as_json("labels", ["--predictions", write("blank", predicted), *files[2:]])
    expected = f1_score(labels, predicted, labels=CLASSES, average="macro")
    assert result["macro_f1"] == pytest.approx(100 * expected)


def test_the_interval_of_an_accuracy_is_wilsons(labels):
    """Near 100% a bootstrap interval is too short: none at all, if all predictions are right."""
    group = accuracy([labels], labels)
    z2 = 1.96**2
    assert group.is_share and group.interval == pytest.approx((100 * 60 / (60 + z2), 100), abs=0.01)
    two = accuracy([labels, predictions(labels, 0.5, seed=2)], labels)
    assert not two.is_share and "bootstrap" in two.explanation
    assert not macro_f1([labels], labels, CLASSES).is_share


ONE_SIDE = (1 + 9 + 36) / 2**9


@pytest.mark.parametrize(
    ("ours", "theirs", "both", "p"),
    [(7, 2, 5, 2 * ONE_SIDE), (2, 7, 0, 2 * ONE_SIDE), (4, 4, 3, 1), (0, 0, 9, 1)],
)
def test_mcnemar_is_a_binomial_test(ours, theirs, both, p):
    system = [True] * ours + [False] * theirs + [True] * both
    baseline = [False] * ours + [True] * theirs + [True] * both
    assert mcnemar(system, baseline) == pytest.approx(p)


def test_labels_are_read_from_predictions(write):
    lines = ["good", "so so\t0.5000", "", '{"label": "bad"}', '{"label": null, "score": null}']
    assert read_labels(write("labels", lines)) == ["good", "so_so", "", "bad", ""]
    braces = ["{joy}", "{", '{"a":1}', '{"label"', "{" * 50_000]
    assert read_labels(write("labels", [f"{label}\t0.5" for label in braces])) == braces


def test_labels_in_other_unicode_forms_are_reported(write, as_json):
    files = ["--predictions", write("a", ["cafe\u0301"]), "--references", write("b", ["caf\xe9"])]
    assert "Unicode forms differ in 1 of 1 " in as_json("labels", files)["warnings"][-1]


@pytest.fixture
def files(labels, write):
    """Return the flags for one run and its references."""
    predicted = write("predicted", predictions(labels, 0.3, seed=3))
    return ["--predictions", predicted, "--references", write("labels", labels)]


def test_a_run_is_compared_with_a_baseline(files, labels, write, as_json):
    other = predictions(labels, 0.5, seed=4)
    result = as_json("labels", [*files, "--baseline", write("baseline", other)])
    assert result["baseline"] == pytest.approx(accuracy([other], labels).mean)
    assert result["accuracy"] == pytest.approx(result["baseline"] + result["difference"])
    low, high = result["interval"]
    assert low < result["accuracy"] < high
    assert 0 < result["p"] < 1 and 0 < result["p_mcnemar"] < 1
    tested = result["significance"]
    assert "bs:200" in tested["tests"]
    assert tested["macro_f1"]["baseline"] + tested["macro_f1"]["difference"] == result["macro_f1"]


def test_several_runs_are_a_group(files, labels, write, as_json):
    runs = [predictions(labels, 0.3, seed=seed) for seed in (3, 5)]
    others = [write(f"other{seed}", predictions(labels, 0.9, seed)) for seed in (6, 7)]
    (warning,) = as_json("labels", [*files, "--baseline", *others])["warnings"]
    assert "one of the two systems has a single run" in warning
    files.insert(2, write("second", runs[1]))
    result = as_json("labels", [*files, "--baseline", *others])
    values = accuracy(runs, labels).scores
    assert result["accuracy"] == pytest.approx(sum(values) / 2)
    assert result["accuracy_deviation"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert result["runs"] == result["baseline_runs"] == 2
    assert result["p"] < 0.01 and "p_mcnemar" not in result
    assert not result["warnings"]


def test_scores_are_printed_and_unknown_labels_warned_of(files, labels, write, capsys, as_json):
    assert score("labels", files) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["accuracy", "macro_f1", "in", "60"]
    assert "95% bootstrap interval" in lines[2]
    files[1] = write("other", ["nice", *labels[1:]])
    warnings = as_json("labels", files)["warnings"]
    assert warnings == ["1 predicted labels are not among the correct ones: 'nice'"]
    options = ["--baseline", write("baseline", ["Good", *labels[1:]])]
    of_baseline = "baseline: 1 predicted labels are not among the correct ones: 'Good'"
    assert as_json("labels", [*files, *options])["warnings"] == [*warnings, of_baseline]


def test_many_classes_have_an_accuracy(write, as_json):
    names = [f"class {number}" for number in range(1001)]
    files = [write("names", names), write("others", [names[1], *names[1:]])]
    words = ["--predictions", files[1], "--references", files[0], "--baseline", files[0]]
    result = as_json("labels", words)
    assert result["accuracy"] == pytest.approx(100 * 1000 / 1001)
    assert "macro_f1" not in result
    (warning,) = result["warnings"]
    assert warning.startswith("the macro-F1 of 1,001 different labels is left out")


RIGHT = random.Random(1).choices([1.0, 2.5, 3.0, 4.2, 5.0], k=60)


def noisy(noise, seed):
    generator = random.Random(seed)
    return [round(number + generator.gauss(0, noise), 3) for number in RIGHT]


def number_scores(x, y):
    kept = numeric_scores(list(map(str, x)), list(map(str, y)))
    return {name: Group(metric_of(name), [each]).mean for name, each in kept.items()}


def test_scores_of_numbers_equal_scipy_and_a_constant_has_correlation_zero():
    x = noisy(1, 2)
    errors = [number - right for number, right in zip(x, RIGHT, strict=True)]
    mse, mae = fmean(error**2 for error in errors), fmean(map(abs, errors))
    expected = {"pearson": pearsonr(x, RIGHT).statistic, "mse": mse, "rmse": mse**0.5, "mae": mae}
    expected["spearman"] = spearmanr(x, RIGHT).statistic  # of ties, too
    assert number_scores(x, RIGHT) == pytest.approx(expected)
    result = number_scores([3.0] * 4, [1.0, 2.0, 3.0, 4.0])
    assert (result["pearson"], result["spearman"], result["mae"]) == (0, 0, 1)
    # In sums of six such rows, rounding makes both variances negative.
    rows = numpy.array([[1, x, x, x * x, x * x, x * x] for x in [0.3] * 6])
    assert metric_of("pearson").function(rows.sum(axis=0)) == 0


@pytest.mark.parametrize("answers", [["yes", "no"], ["nan", "1.0"], ["inf", "1.0"], ["1.0", ""]])
def test_text_has_no_scores_of_numbers(answers):
    assert numeric_scores(answers, ["1.0", "2.0"]) == {}


def test_predicted_numbers_are_scored_as_numbers(write, as_json):
    lines = [json.dumps({"score": x}) for x in noisy(1, 2)]  # of posattn predict --json
    files = ["--predictions", write("x", lines), "--references", write("right", [*map(str, RIGHT)])]
    baseline = ["--baseline", write("y", [f"{x:.4f}" for x in noisy(3, 4)])]
    result = as_json("labels", [*files, *baseline])
    expected = number_scores(noisy(1, 2), RIGHT)
    assert {name: result[name] for name in expected} == pytest.approx(expected)
    assert result["significance"]["rmse"]["difference"] < 0
    classes = [
        "--predictions",
        write("c", ["1", "2", "2"]),
        "--references",
        write("d", ["1", "1", "2"]),
    ]
    assert "accuracy" in as_json("labels", classes)


@pytest.mark.parametrize("file, row", [("y", 1), ("right", 2)])
@pytest.mark.parametrize("other", ["", "nan"])
def test_a_text_beside_numbers_that_is_none_is_an_error(other, file, row, write, capsys):
    texts = {"x": ["1.1", "2.2", "3.1"], "right": ["1", "2", "3"], "y": ["1.2", "2.1", "2.9"]}
    texts[file][row] = other
    x, right, y = (write(name, lines) for name, lines in texts.items())
    assert score("labels", ["--predictions", x, "--references", right, "--baseline", y]) == 1
    assert f"{file}:{row + 1}: {other!r} is not a number, as most ref" in capsys.readouterr().err


def test_other_names_of_classes_are_no_numbers(write, as_json):
    """Most classes are numbers, one is a word, and the predictions have other names."""
    right, named = write("right", ["1", "2", "2", "none"]), write("x", ["one", "two", "one", "no"])
    result = as_json("labels", ["--predictions", named, "--references", right])
    assert result["accuracy"] == 0
    assert "3 predicted labels are not among the correct ones" in result["warnings"][0]


def test_scores_of_numbers_have_four_digits(write, capsys):
    small = [number / 100 for number in RIGHT]
    x, y = ([f"{a / 100:.5f}" for a in noisy(0.3, seed)] for seed in (2, 3))
    files = ["--predictions", write("x", x), "--baseline", write("y", y)]
    assert score("labels", [*files, "--references", write("right", list(map(str, small)))]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()[:5])
    values = number_scores(x, small)
    assert {name: line.split()[0] for name, line in lines.items()} == {
        name: f"{value:.4f}" for name, value in values.items()
    }


def test_a_closer_model_is_significantly_better():
    right = list(map(str, RIGHT))

    def group(name, noise, seeds):
        runs = [numeric_scores(list(map(str, noisy(noise, seed))), right) for seed in seeds]
        return Group(metric_of(name), [run[name] for run in runs])

    for name in ("pearson", "spearman", "rmse"):
        close, far = group(name, 0.3, (3, 4)), group(name, 2.5, (5, 6))
        result = compare(close, far)
        assert result.p < 0.05 and result.p_randomisation < 0.05
        assert (result.difference > 0) == (name != "rmse")
        low, high = result.interval
        assert low < result.difference < high
        assert compare(group(name, 1, (7, 8)), group(name, 1, (9, 10))).p > 0.05
