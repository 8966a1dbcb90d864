"""Scores of predicted numbers, of what each example adds to them, against SciPy's."""

import random

import pytest
from scipy.stats import pearsonr, spearmanr

from fairseq_posattn.scoring.numeric import numeric_scores
from fairseq_posattn.scoring.sentence_statistics import metric_of
from fairseq_posattn.scoring.significance import Group, compare

RIGHT = random.Random(1).choices([1.0, 2.5, 3.0, 4.2, 5.0], k=60)


def predicted(noise, seed):
    generator = random.Random(seed)
    return [round(number + generator.gauss(0, noise), 3) for number in RIGHT]


def scores(x, y):
    kept = numeric_scores(list(map(str, x)), list(map(str, y)))
    return {name: Group(metric_of(name), [each]).mean for name, each in kept.items()}


def test_they_are_as_scipy_has_them():
    x = predicted(1, 2)
    errors = [one - other for one, other in zip(x, RIGHT, strict=True)]
    mse = sum(error**2 for error in errors) / len(errors)
    assert scores(x, RIGHT) == pytest.approx(
        {
            "pearson": pearsonr(x, RIGHT).statistic,
            "spearman": spearmanr(x, RIGHT).statistic,  # of ties, too
            "mse": mse,
            "rmse": mse**0.5,
            "mae": sum(map(abs, errors)) / len(errors),
        }
    )


def test_a_constant_has_no_correlation():
    found = scores([3.0] * 4, [1.0, 2.0, 3.0, 4.0])
    assert (found["pearson"], found["spearman"], found["mae"]) == (0, 0, 1)


@pytest.mark.parametrize("answers", [["yes", "no"], ["nan", "1.0"], ["inf", "1.0"], ["1.0", ""]])
def test_what_are_no_numbers_has_no_such_scores(answers):
    assert numeric_scores(answers, ["1.0", "2.0"]) == {}


def test_a_closer_model_is_better_by_more_than_chance():
    right = list(map(str, RIGHT))

    def group(name, noise, seeds):
        runs = [numeric_scores(list(map(str, predicted(noise, seed))), right) for seed in seeds]
        return Group(metric_of(name), [run[name] for run in runs])

    for name in ("pearson", "spearman", "rmse"):
        close, far = group(name, 0.3, (3, 4)), group(name, 2.5, (5, 6))
        found = compare(close, far)
        assert found.p < 0.05 and found.p_randomisation < 0.05
        assert (found.difference > 0) == (name != "rmse")
        low, high = found.interval
        assert low < found.difference < high
        assert compare(group(name, 1, (7, 8)), group(name, 1, (9, 10))).p > 0.05
