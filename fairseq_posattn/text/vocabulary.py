"""Words of a corpus, and fairseq's dictionaries."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath, writing
from fairseq_posattn.text.lines import file_lines

VECTORS = "glove.txt"  # beside dict.txt: a vector for each word, in GloVe's format with a header
COVERAGE = "glove.json"  # the share of the training text's running words that had a vector
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # in every dictionary of fairseq
MASK = "<mask>"  # which fairseq adds for classifiers: predictors read it as an unknown word


def check_symbols(text: str, location: str, option: str) -> None:
    """Raise UsageError for a special symbol in text; ``option`` splits them, unless it is ""."""
    for symbol in SPECIAL:
        if symbol in text and symbol in text.split():
            problem = f"{symbol} is a special symbol of fairseq's dictionaries"
            fix = f", or give {option}, which splits it" if option else ""
            raise UsageError(f"{location}: {problem}; write the word otherwise{fix}")


def count_words(paths: Iterable[StrPath]) -> Counter[str]:
    """Return the counts of the words in some tokenized files."""
    counts = Counter[str]()
    for path in paths:
        for line in file_lines(path, allow_empty=True):
            counts.update(line.split())
    return counts


def choose_words(
    train: Mapping[str, int], others: Iterable[str], known: Collection[str], min_count: int
) -> dict[str, int]:
    """Return the counts of the dictionary's words, the most frequent in training first.

    ``train`` and ``others`` count the words of training and of the other splits. ``known`` words
    have a vector: all others need ``min_count`` occurrences in training.
    """
    chosen = {word: count for word, count in train.items() if count >= min_count or word in known}
    chosen |= {word: 0 for word in others if word in known and word not in chosen}
    ranked = sorted(chosen, key=lambda word: (-chosen[word], word))
    return {word: chosen[word] for word in ranked if word not in (*SPECIAL, MASK)}


def read_symbols(path: StrPath) -> list[str]:
    """Return the words of a dictionary in fairseq's format, by number."""
    return [line.rpartition(" ")[0] for line in file_lines(path, allow_empty=True)]


def write_dictionary(path: StrPath, counts: Mapping[str, int]) -> None:
    """Write a dictionary in fairseq's format, in the order of ``counts``."""
    with writing(path) as file:
        file.writelines(f"{word} {count}\n" for word, count in counts.items())
