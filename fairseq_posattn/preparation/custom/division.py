"""What is held out of one's own training set for validation and test."""

import unicodedata
from collections import Counter

import regex

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.folds import stratified_sample

HELD_OUT = ("test", "valid")


INVISIBLE = regex.compile(r"[\s\p{C}]+")


def identity(*texts):
    """Return a hash that is equal for texts which differ in spaces, case or Unicode form only.

    Whatever word rule is applied to such texts can make them equal.
    """
    forms = (unicodedata.normalize("NFKC", text).casefold() for text in texts)
    return hash(tuple(INVISIBLE.sub("", text) for text in forms))


def hold_out(examples, seed, sizes, name):
    """The indices of the examples that are held out, by split; each class has its share.

    Texts that stand there more than once stay in training, so that no split has what another has.
    Of a class that would then have no example for training, none is held out.

    Args:
        examples: of each, its class, None for none, and the :func:`identity` of its text.
        seed: of the choice.
        sizes: of each split, how many examples it gets.
        name: of the training set, for messages.

    Raises:
        UsageError: there are too few.
    """
    labels, texts = [label for label, _ in examples], Counter(text for _, text in examples)
    free = [index for index, (_, text) in enumerate(examples) if texts[text] == 1]
    chosen, trained = {}, Counter(labels)
    for split, size in sizes.items():
        sample = stratified_sample([labels[index] for index in free], seed, size)
        chosen[split] = {free[index] for index in sample}
        free = [index for index in free if index not in chosen[split]]
        trained.subtract(labels[index] for index in chosen[split])
    for split, indices in chosen.items():
        chosen[split] = {index for index in indices if trained[labels[index]] > 0}
        if not chosen[split]:
            classes = "" if None in trained else f" of {len(trained):,} classes"
            once = sum(count == 1 for count in texts.values())
            if once < len(texts):  # it is not obvious then
                classes += f", {once:,} of them there only once,"
            raise UsageError(
                f"{name}: {len(texts):,} different texts{classes} are too few to hold some out "
                f"for {split}: give more, or --{split} FILE"
            )
    return chosen
