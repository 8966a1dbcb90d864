"""What one's own splits hold: sizes, lengths, classes, and what stands in them more than once."""

from collections import Counter
from operator import itemgetter
from statistics import median

from fairseq_posattn.common.progress import say
from fairseq_posattn.preparation.corpus import SPLITS
from fairseq_posattn.preparation.pairs import text_lines

MOST_LABELS = 30  # lines of the table of classes


def report_splits(splits, sides, key=lambda texts: texts):
    """Print a line a split, and warn of what is both in training and in another split.

    Args:
        splits: of each, ``train`` first, an iterable of its examples: the texts of an example,
            in words or pieces.
        sides: what to call these texts.
        key: gives of the texts what makes two examples the same.
    """
    lengths = "  ".join(f"{side}: median, longest" for side in sides)
    print(f"{'split':<6} {'examples':>10} {'repeated':>10} {'in train':>10}   {lengths}")
    trained, warnings = frozenset(), []
    for split, examples in splits.items():
        counts, known, shared = [Counter() for _ in sides], set(), 0
        for texts in examples:
            for count, text in zip(counts, texts, strict=True):
                count[len(text.split())] += 1
            example = hash(key(texts))
            known.add(example)
            shared += example in trained
        number = counts[0].total()
        told = "  ".join(
            f"{f'{median(count.elements()):g}, {max(count):,}':>{len(side) + 17}}"
            for side, count in zip(sides, counts, strict=True)
        )
        in_train = "-" if split == "train" else f"{shared:,}"
        print(f"{split:<6} {number:>10,} {number - len(known):>10,} {in_train:>10}   {told}")
        if shared:
            warnings.append(
                f"warning: {shared:,} of the {number:,} examples of {split} are in train, too: "
                "its scores will be too good"
            )
        trained = trained or known
    for warning in warnings:
        say(warning)


def report_pairs(text, prefix, sides):
    """:func:`report_splits` of a folder of text; what is in training is looked for by its source.

    Args:
        text: the folder. prefix: of its files in pieces.
        sides: their endings.
    """
    splits = {
        split: zip(*(text_lines(text / f"{prefix}{split}.{side}") for side in sides), strict=True)
        for split in SPLITS
    }
    report_splits(splits, sides, key=itemgetter(0))


def report_labels(labels):
    """Print how often each class occurs in each split, with its share.

    Args:
        labels: of each split, an iterable of the classes of its examples.
    """
    counts = {split: Counter(names) for split, names in labels.items()}
    names = sorted(set().union(*counts.values()), key=lambda name: (-counts["train"][name], name))
    width = max(len("label"), *map(len, names[:MOST_LABELS]))
    print(f"{'label':<{width}}" + "".join(f" {split:>18}" for split in counts))
    for name in names[:MOST_LABELS]:
        shares = (
            f"{count[name]:,} ({count[name] / count.total():.1%})" for count in counts.values()
        )
        print(f"{name:<{width}}" + "".join(f" {share:>18}" for share in shares))
    if len(names) > MOST_LABELS:
        print(f"(and {len(names) - MOST_LABELS:,} more)")
