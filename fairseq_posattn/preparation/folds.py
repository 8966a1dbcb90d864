"""Seeded, stratified splits of data sets whose splits were not published.

Each class has its share of each split, to within one example.
"""

import random

FOLDS = 10


def cross_validation(labels, seed, valid_fraction):
    """Return the splits of ten-fold cross validation.

    Args:
        labels: class of each example, or None.
        seed: seed of the shuffle.
        valid_fraction: share of a fold's training examples, held out for validation.

    Returns:
        For each fold the index sets ``train``, ``valid`` and ``test``; each example is tested in
        one fold.
    """
    order = stratified_order(labels, seed)
    return [_fold(labels, order[fold::FOLDS], seed, valid_fraction) for fold in range(FOLDS)]


def tenths(labels, seed):
    """Return index sets: eight tenths for training, one for validation, one for test."""
    order = stratified_order(labels, seed)
    test, valid = set(order[0::FOLDS]), set(order[1::FOLDS])
    return {"train": set(order) - test - valid, "valid": valid, "test": test}


def held_out(labels, seed, fraction):
    """Return the indices of a fraction of the examples, at least one."""
    return stratified_sample(labels, seed, max(1, round(len(labels) * fraction)))


def stratified_sample(labels, seed, count):
    """Return the indices of ``count`` examples, or of all if there are fewer."""
    order = stratified_order(labels, seed)
    count = min(count, len(order))
    return {order[(2 * i + 1) * len(order) // (2 * count)] for i in range(count)}


def stratified_order(labels, seed):
    """Return all indices by class, shuffled within each class.

    Indices at even distances then give each class its share.
    """
    by_class = {}
    for index, label in enumerate(labels):
        by_class.setdefault(label, []).append(index)
    generator = random.Random(seed)
    order = []
    for label in sorted(by_class, key=str):
        generator.shuffle(by_class[label])
        order += by_class[label]
    return order


def _fold(labels, tested, seed, valid_fraction):
    test = set(tested)
    rest = [index for index in range(len(labels)) if index not in test]
    valid = {rest[i] for i in held_out([labels[index] for index in rest], seed, valid_fraction)}
    return {"train": set(rest) - valid, "valid": valid, "test": test}
