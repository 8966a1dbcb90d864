"""The words of a corpus, and the dictionaries that fairseq reads."""

from collections import Counter

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import writing
from fairseq_posattn.text.lines import read_lines

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # every dictionary of fairseq has them already


def check_symbols(text, place, mend):
    """Refuse text in words that has a special symbol among them, which fairseq takes for its own.

    Args:
        place: where the text is, for the message.
        mend: option by which such words are split.

    Raises:
        UsageError: names place, symbol and option.
    """
    for symbol in SPECIAL:
        if symbol in text and symbol in text.split():
            raise UsageError(
                f"{place}: {symbol} is a special symbol of fairseq's dictionaries; write the word "
                f"otherwise, or give {mend}, which splits it"
            )


def count_words(paths):
    """How often each word occurs in some tokenised files."""
    counts = Counter()
    for path in paths:
        with open(path, "rb") as stream:
            for line in read_lines(stream, path, allow_empty=True):
                counts.update(line.split())
    return counts


def choose_words(train, others, known, min_count):
    """The words of the dictionary, the most frequent in training first.

    Those of the training set that occur often enough, or have a pre-trained vector; and those of
    the other splits that have one: for a model that reads a vector, such a word is not unknown.

    Args:
        train, others: counts of words.
        known: the words that have pre-trained vectors.
        min_count: occurrences that a word without a vector needs.
    """
    chosen = {word: count for word, count in train.items() if count >= min_count or word in known}
    chosen |= {word: 0 for word in others if word in known and word not in chosen}
    ranked = sorted(chosen, key=lambda word: (-chosen[word], word))
    return {word: chosen[word] for word in ranked if word not in SPECIAL}


def write_dictionary(path, counts):
    """Write a dictionary in fairseq's format, in the order of ``counts``."""
    with writing(path) as file:
        for word, count in counts.items():
            file.write(f"{word} {count}\n")
