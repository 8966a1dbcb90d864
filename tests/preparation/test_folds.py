"""Divisions of data: complete, disjoint, stratified, seeded."""

from collections import Counter

import pytest

from fairseq_posattn.preparation import folds

LABELS = ["a"] * 61 + ["b"] * 37 + ["c"] * 5


@pytest.mark.parametrize("seed", [1, 2])
def test_a_fold_is_all_examples_each_class_alike(seed):
    all_folds = folds.cross_validation(LABELS, seed, 0.1)
    tested = [index for fold in all_folds for index in fold["test"]]
    assert sorted(tested) == list(range(len(LABELS)))
    for fold in all_folds:
        parts = [fold["train"], fold["valid"], fold["test"]]
        assert sorted(index for part in parts for index in part) == list(range(len(LABELS)))
        assert len(fold["test"]) in (10, 11)
        assert len(fold["valid"]) == 9
        tested = Counter(LABELS[index] for index in fold["test"])
        assert tested["a"] in (6, 7)
        assert tested["b"] in (3, 4)
        assert tested["c"] in (0, 1)


def test_tenths():
    parts = folds.tenths(LABELS, 1)
    assert [len(parts[split]) for split in ("train", "valid", "test")] == [81, 11, 11]
    assert sorted(set().union(*parts.values())) == list(range(len(LABELS)))


def test_ag_news_validates_on_12000_of_which_each_class_has_3000():
    labels = ["World", "Sports", "Business", "Sci/Tech"] * 30_000
    held_out = folds.held_out(labels, 1, 0.1)
    assert Counter(labels[index] for index in held_out) == dict.fromkeys(labels, 3_000)


def test_seeds_differ_and_repeat():
    assert folds.held_out(LABELS, 1, 0.2) == folds.held_out(LABELS, 1, 0.2)
    assert folds.held_out(LABELS, 1, 0.2) != folds.held_out(LABELS, 2, 0.2)


def test_samples_of_little():
    assert len(folds.held_out(["a", "b"], 1, 0.1)) == 1
    assert folds.stratified_sample(["a", "b"], 1, 5) == {0, 1}
