"""What is held out of one's own training set for validation and test."""

from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation.pipeline.folds import stratified_sample


def hold_out(labels, seed, sizes, name):
    """The indices of the examples that are held out, by split; each class has its share.

    Of a class that would then have no example for training, none is held out.

    Args:
        labels: the class of each example, None for none.
        seed: of the choice.
        sizes: of each split, how many examples it gets.
        name: of the training set, for messages.

    Raises:
        UsageError: there are too few.
    """
    rest, chosen = list(range(len(labels))), {}
    for split, size in sizes.items():
        sample = stratified_sample([labels[index] for index in rest], seed, size)
        chosen[split] = {rest[index] for index in sample}
        rest = [index for index in rest if index not in chosen[split]]
    trained = {labels[index] for index in rest}
    for split, indices in chosen.items():
        chosen[split] = {index for index in indices if labels[index] in trained}
        if not chosen[split]:
            raise UsageError(
                f"{name}: {len(labels):,} examples of {len(set(labels)):,} classes are too few to "
                f"hold some out for {split}: give more, or --{split} FILE"
            )
    return chosen
