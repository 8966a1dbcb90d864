import itertools
import math

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.ranking import (
    Impression,
    auc,
    mean_scores,
    mrr,
    ndcg,
    ranking,
    read_scores,
    score,
    scores_line,
    submission_line,
)


def test_of_equal_scores_the_later_one_ranks_first():
    assert ranking([0.5, 0.9, 0.5, 0.1]) == [1, 2, 0, 3]


def test_auc_counts_pairs():
    labels, scores = [1, 0, 0, 1, 0], [0.3, 0.1, 0.3, 0.2, 0.9]
    pairs = [
        1.0 if scores[i] > scores[j] else 0.5 if scores[i] == scores[j] else 0.0
        for i, j in itertools.product(range(5), repeat=2)
        if labels[i] and not labels[j]
    ]
    assert auc(labels, scores) == pytest.approx(sum(pairs) / len(pairs))


def test_mrr_is_over_all_clicks():
    assert mrr([1, 1, 0], [3.0, 2.0, 1.0]) == 0.75
    assert mrr([0, 0, 1], [3.0, 2.0, 1.0]) == pytest.approx(1 / 3)


def test_ndcg():
    labels, scores = [0, 1, 0, 1], [4.0, 3.0, 2.0, 1.0]
    best = 1 + 1 / math.log2(3)
    assert ndcg(labels, scores, 4) == pytest.approx((1 / math.log2(3) + 1 / math.log2(5)) / best)
    assert ndcg(labels, scores, 2) == pytest.approx(1 / math.log2(3) / best)
    assert ndcg(labels, scores, 1) == 0.0


def test_an_impression_with_one_kind_of_candidate_is_skipped():
    assert score(Impression("1", [0, 0], [1.0, 2.0])) is None
    assert score(Impression("1", [1], [1.0])) is None
    means = mean_scores(
        [
            Impression("1", [1, 0], [2.0, 1.0]),
            Impression("2", [0, 1], [2.0, 1.0]),
            Impression("3", [0], [1.0]),
        ]
    )
    assert means["auc"] == 0.5
    assert means["mrr"] == 0.75
    assert (means["scored"], means["skipped"]) == (2, 1)


def test_no_impression_is_zero():
    assert mean_scores([])["auc"] == 0.0


def test_a_file_of_scores():
    lines = ["7\t[1, 0]\t[0.5, -1e-3]\n", "\n", "8\t[0, 1]\t[1, 2]\n"]
    assert list(read_scores(lines, "scores.tsv")) == [
        Impression("7", [1, 0], [0.5, -0.001]),
        Impression("8", [0, 1], [1, 2]),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1\t[1, 0]\n", "scores.tsv:2: 2 columns; a line has 3"),
        ("1\t[1, 0]\t[0.5]\n", "scores.tsv:2: 2 labels, but 1 scores"),
        ("1\t[1, 2]\t[0.5, 1]\n", "scores.tsv:2: label 2"),
        ("1\t[1, 0]\t[0.5, NaN]\n", "scores.tsv:2: score nan: must be finite"),
        ("1\t[1, 0]\t[0.5, 1e999]\n", "scores.tsv:2: score inf: must be finite"),
        ("1\t[1, 0]\t[0.5\n", r"scores.tsv:2: scores: must be a JSON list of numbers, not"),
        ("1\t[1, true]\t[0.5, 1]\n", "scores.tsv:2: labels: must be a JSON list of numbers"),
        ('1\t{"a": 1}\t[0.5, 1]\n', "scores.tsv:2: labels: must be a JSON list of numbers"),
    ],
)
def test_a_mistake_names_file_and_line(line, message):
    with pytest.raises(UsageError, match=message):
        list(read_scores(["0\t[1]\t[1]\n", line], "scores.tsv"))


def test_a_submission_has_ranks_in_the_candidates_order_without_blanks():
    impression = Impression("12", [0, 1, 0], [0.1, 0.9, 0.1])
    assert submission_line(impression) == "12 [3,1,2]\n"


def test_scores_are_read_as_they_were_written():
    impression = Impression("12", [0, 1], [0.1, -1e-30])
    assert list(read_scores([scores_line(impression)], "typed")) == [impression]
