"""The options of all preparations that make words of text, and vectors for them."""

import argparse

from fairseq_posattn.common.cli import positive
from fairseq_posattn.preparation.vectors import DEFAULT_DIM, NAMES


def add_seed(parser):
    parser.add_argument(
        "--seed",
        type=int,
        metavar="N",
        default=1,
        help="of what is held out, of folds and of made-up vectors (default: %(default)s)",
    )


def add_word_options(parser):
    """Which vectors words get, and which words are known."""
    vectors = parser.add_argument_group("words")
    vectors.add_argument(
        "--glove",
        metavar="VECTORS",
        help="pre-trained vectors: a file in GloVe's format, or a zip or folder of such, or, to "
        f"download them, a name: {', '.join(NAMES)}. glove.txt in --dest gets a vector for each "
        "word of the dictionary, for --encoder-embed-path; a word that has none gets one that is "
        "uniform in +-0.05. Words that only validation or test have are then in the dictionary "
        "if they have a vector",
    )
    vectors.add_argument(
        "--glove-dim",
        type=positive,
        metavar="N",
        default=DEFAULT_DIM,
        help="which vectors to take if --glove holds several files (default: %(default)s)",
    )
    vectors.add_argument(
        "--min-count",
        type=positive,
        metavar="N",
        help="how often a word without a vector must occur in training to be in the dictionary "
        "(default: 1; 5 for the Yelp and Yahoo sets)",
    )
    vectors.add_argument(
        "--cased",
        action="store_true",
        help="keep capitals, for vectors such as GloVe's 840B (default: small letters, for its 6B)",
    )


def fraction(text):
    """The type of options that hold out a share."""
    try:
        value = float(text)
    except ValueError:
        value = 0
    if not 0 < value <= 0.5:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0 and at most 0.5")
    return value
