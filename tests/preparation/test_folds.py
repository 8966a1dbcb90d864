"""Divisions of data: complete, disjoint, stratified, seeded."""

from collections import Counter

import pytest

from fairseq_posattn.preparation import labelled_text as splits

LABELS = ["a"] * 61 + ["b"] * 37 + ["c"] * 5


@pytest.mark.parametrize("seed", [1, 2])
def test_folds_are_complete_and_stratified(seed):
    folds = splits.cross_validation(LABELS, seed, 0.1)
    tested = [index for fold in folds for index in fold["test"]]
    assert sorted(tested) == list(range(len(LABELS)))
    for fold in folds:
        parts = [fold["train"], fold["valid"], fold["test"]]
        assert sorted(index for part in parts for index in part) == list(range(len(LABELS)))
        assert len(fold["test"]) in (10, 11)
        assert len(fold["valid"]) == 9
        counts = Counter(LABELS[index] for index in fold["test"])
        assert counts["a"] in (6, 7) and counts["b"] in (3, 4) and counts["c"] in (0, 1)


def test_tenths_are_complete():
    parts = splits.tenths(LABELS, 1)
    assert [len(parts[split]) for split in ("train", "valid", "test")] == [81, 11, 11]
    assert sorted(set().union(*parts.values())) == list(range(len(LABELS)))


def test_held_out_examples_are_stratified_and_seeded():
    labels = ["World", "Sports", "Business", "Sci/Tech"] * 30_000  # AG News
    chosen = splits.held_out(labels, 1, 0.1)
    assert Counter(labels[index] for index in chosen) == dict.fromkeys(labels, 3_000)
    assert splits.held_out(LABELS, 1, 0.2) == splits.held_out(LABELS, 1, 0.2)
    assert splits.held_out(LABELS, 1, 0.2) != splits.held_out(LABELS, 2, 0.2)
    assert len(splits.held_out(["a", "b"], 1, 0.1)) == 1
    assert splits.stratified_sample(["a", "b"], 1, 5) == {0, 1}
