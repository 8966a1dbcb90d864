"""Write a German-English corpus of written-out numbers, in word pieces.

German writes a number below a million as one word and says the units before the tens; English
writes several words and says the tens first:

    321405   dreihunderteinundzwanzigtausendvierhundertfünf
             three hundred twenty-one thousand four hundred five

The text is cut into pieces as byte pair encoding writes them, "@@" meaning that the word goes on:

             drei@@ hundert@@ ein@@ und@@ zwan@@ zig@@ tausend@@ vier@@ hundert@@ fünf
             three hundred twen@@ ty-@@ one thousand four hundred five

So a translator has to move the units behind the tens, to drop what only one language says, to
build words out of pieces, and to keep the thousands apart from what follows them.
"""

import argparse
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fairseq_posattn.common.files import write_text

LARGEST = 999_999
MOST_PAIRS = 100_000

# fmt: off
GERMAN_UP_TO_TWELVE = [
    "null", "eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun",
    "zehn", "elf", "zwölf",
]
ENGLISH_UP_TO_TWELVE = [
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine",
    "ten", "eleven", "twelve",
]
# fmt: on
# Digits that are spelled otherwise before -zehn and -zig, or before -teen and -ty.
GERMAN_STEMS = {6: "sech", 7: "sieb"}
ENGLISH_STEMS = {2: "twen", 3: "thir", 5: "fif", 8: "eigh"}


def german(number: int) -> str:
    """Spell a number in German: one word, in pieces.

    Args:
        number (int): 0 to 999,999.

    Raises:
        ValueError: the number is outside that range.
    """
    return "@@ ".join(_in_thousands(number, _german_below_thousand, "tausend"))


def english(number: int) -> str:
    """Spell a number in English: words, some of them in pieces.

    Args:
        number (int): 0 to 999,999.

    Raises:
        ValueError: the number is outside that range.
    """
    return " ".join(_in_thousands(number, _english_below_thousand, "thousand"))


def _in_thousands(
    number: int, below_thousand: Callable[[int, bool], list[str]], thousand: str
) -> list[str]:
    if not 0 <= number <= LARGEST:
        raise ValueError(f"{number} cannot be spelled: choose a number from 0 to {LARGEST}")
    thousands, rest = divmod(number, 1000)
    spelled = [*below_thousand(thousands, False), thousand] if thousands else []
    return spelled + (below_thousand(rest, True) if rest or not thousands else [])


def _german_below_thousand(number: int, is_end: bool) -> list[str]:
    """One is "eins" at the end of the whole number and "ein" inside it."""
    hundreds, rest = divmod(number, 100)
    spelled = [_german_digit(hundreds), "hundert"] if hundreds else []
    if rest == 1 and is_end:
        return [*spelled, "eins"]
    return spelled + (_german_below_hundred(rest) if rest or not hundreds else [])


def _german_below_hundred(number: int) -> list[str]:
    tens, unit = divmod(number, 10)
    if number < 10:
        return [_german_digit(number)]
    if number <= 12:
        return [GERMAN_UP_TO_TWELVE[number]]
    if tens == 1:
        return [GERMAN_STEMS.get(unit, GERMAN_UP_TO_TWELVE[unit]), "zehn"]
    units = [_german_digit(unit), "und"] if unit else []
    stem = "zwan" if tens == 2 else GERMAN_STEMS.get(tens, GERMAN_UP_TO_TWELVE[tens])
    return [*units, stem, "ßig" if tens == 3 else "zig"]


def _german_digit(digit: int) -> str:
    return "ein" if digit == 1 else GERMAN_UP_TO_TWELVE[digit]


def _english_below_thousand(number: int, is_end: bool) -> list[str]:
    """English spells alike inside a number and at its end."""
    hundreds, rest = divmod(number, 100)
    spelled = [ENGLISH_UP_TO_TWELVE[hundreds], "hundred"] if hundreds else []
    return spelled + ([_english_below_hundred(rest)] if rest or not hundreds else [])


def _english_below_hundred(number: int) -> str:
    tens, unit = divmod(number, 10)
    if number <= 12:
        return ENGLISH_UP_TO_TWELVE[number]
    if tens == 1:
        return f"{ENGLISH_STEMS.get(unit, ENGLISH_UP_TO_TWELVE[unit])}@@ teen"
    stem = "for" if tens == 4 else ENGLISH_STEMS.get(tens, ENGLISH_UP_TO_TWELVE[tens])
    return f"{stem}@@ ty-@@ {ENGLISH_UP_TO_TWELVE[unit]}" if unit else f"{stem}@@ ty"


def draw_splits(train: int, valid: int, test: int, seed: int) -> dict[str, list[int]]:
    """Draw the numbers of each split; no number is in two of them, or twice in one.

    All of 0 to 99 are for training, so that it has every word, and what the other splits test is
    how words combine. The rest are drawn on a logarithmic scale, lest short numbers be rare.

    Args:
        train, valid, test (int): how many numbers.
        seed (int): the same seed draws the same numbers.

    Returns:
        dict: the numbers by split, in no order.

    Raises:
        ValueError: a size is too small or their sum too large.
    """
    if train < 100 or min(valid, test) < 1:
        raise ValueError(
            f"{train} pairs to train, {valid} to validate and {test} to test are too few: "
            "at least 100, 1 and 1 are needed"
        )
    if train + valid + test > MOST_PAIRS:
        raise ValueError(f"{train + valid + test} pairs are too many: at most {MOST_PAIRS}")
    generator = random.Random(seed)
    found: dict[int, None] = {}  # as an ordered set
    while len(found) < train - 100 + valid + test:
        found[int(100 * 10_000 ** generator.random())] = None
    drawn = list(found)
    splits = {
        "valid": drawn[:valid],
        "test": drawn[valid : valid + test],
        "train": drawn[valid + test :] + list(range(100)),
    }
    generator.shuffle(splits["train"])
    return splits


def write_corpus(directory: Path, splits: Mapping[str, Sequence[int]]) -> None:
    """Write ``train.de``, ``train.en``, ``valid.de``, ..., a number a line.

    Args:
        directory (Path): made if it is not there; files of the same names are replaced.
        splits (dict): the numbers of each split, by its name.
    """
    directory.mkdir(parents=True, exist_ok=True)
    for split, numbers in splits.items():
        for language, spell in (("de", german), ("en", english)):
            text = "".join(f"{spell(number)}\n" for number in numbers)
            write_text(directory / f"{split}.{language}", text)


def main() -> None:
    summary, _, details = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, help="where train.de, train.en, valid.de, ... go")
    parser.add_argument("--train", type=int, default=30_000, help="pairs (default: %(default)s)")
    parser.add_argument("--valid", type=int, default=500, help="pairs (default: %(default)s)")
    parser.add_argument("--test", type=int, default=500, help="pairs (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the draw (default: %(default)s)")
    args = parser.parse_args()
    try:
        splits = draw_splits(args.train, args.valid, args.test, args.seed)
        write_corpus(args.directory, splits)
    except (OSError, ValueError) as error:
        sys.exit(f"{parser.prog}: error: {error}")


if __name__ == "__main__":
    main()
