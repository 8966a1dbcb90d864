"""The Stanford Sentiment Treebank (Socher et al., 2013): SST-5 and SST-2.

The archive holds ``trees/{train,dev,test}.txt``, a tree a line in which every phrase is labelled
from 0 (very negative) to 4 (very positive). SST-2 merges 0 with 1 and 3 with 4 and drops what is
neutral.

Training is on whole sentences, or on phrases too: then every sentence is followed by those of its
phrases that did not occur before with the same class. Validation and test are whole sentences.
"""

import re
from functools import partial

from preparation.corpus import Corpus
from preparation.download import Source
from preparation.errors import DataError
from preparation.example import Example
from preparation.lines import read_lines
from preparation.words import treebank_words

FINE = ("very_negative", "negative", "neutral", "positive", "very_positive")
BINARY = ("negative", "positive")
FINE_TO_BINARY = {
    "very_negative": "negative",
    "negative": "negative",
    "positive": "positive",
    "very_positive": "positive",
}
FILES = {"train": "trees/train.txt", "valid": "trees/dev.txt", "test": "trees/test.txt"}
TREE_SYMBOLS = re.compile(r"[()]|[^\s()]+")


def fine_splits(archive, phrases=False):
    """Readers of the splits of SST-5, by name; ``phrases`` concerns training only."""
    return {
        split: partial(examples, archive, member, phrases and split == "train")
        for split, member in FILES.items()
    }


def binary_splits(archive, phrases=False):
    """Readers of the splits of SST-2, by name; ``phrases`` concerns training only."""
    return {
        split: partial(without_neutral, read)
        for split, read in fine_splits(archive, phrases).items()
    }


def without_neutral(read):
    """The examples that have a side, with the names of SST-2's classes."""
    for example in read():
        if example.label != "neutral":
            yield example._replace(label=FINE_TO_BINARY[example.label])


def examples(archive, member, phrases):
    """The sentences of one file of trees, and their phrases if they are wanted."""
    seen = set()
    name = archive.label(member)
    with archive.open(member) as stream:
        for number, line in enumerate(read_lines(stream, name), start=1):
            place = f"{name}:{number}"
            sentence, *rest = labelled_phrases(line, place)
            seen.add(sentence)
            yield Example(*_named(sentence), place)
            for phrase in rest if phrases else ():
                if phrase not in seen:
                    seen.add(phrase)
                    yield Example(*_named(phrase), place)


def labelled_phrases(tree, place):
    """``(class number, words joined by spaces)`` of each node of a tree, parents before children.

    Raises:
        DataError: it is not one whole tree.
    """
    found, open_nodes, words, expects_label = [], [], [], False
    for symbol in TREE_SYMBOLS.findall(tree):
        if open_nodes == [] and found:
            raise DataError(f"{place}: there is more on the line after its tree")
        if symbol == "(" and not expects_label:
            open_nodes.append(len(found))
            found.append((None, len(words)))
            expects_label = True
        elif expects_label:
            if symbol not in tuple("01234"):
                raise DataError(f"{place}: {symbol!r} stands where a class from 0 to 4 should")
            found[-1] = (int(symbol), found[-1][1])
            expects_label = False
        elif not open_nodes:
            raise DataError(f"{place}: not a labelled tree such as (3 (2 It) (4 works))")
        elif symbol == ")":
            node = open_nodes.pop()
            label, start = found[node]
            if start == len(words):
                raise DataError(f"{place}: a node of the tree has no words")
            found[node] = (label, " ".join(words[start:]))
        else:
            words.append(symbol)
    if open_nodes or not found:
        raise DataError(f"{place}: the tree ends before its brackets are closed")
    return found


def _named(phrase):
    label, words = phrase
    return FINE[label], (words,)


TREES = Source(
    "trainDevTestTrees_PTB.zip",
    ("https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",),
    "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
)


def _corpus(summary, splits, labels, published):
    return Corpus(
        summary=summary,
        source=f"{TREES.name}, or a folder with trees/{{train,dev,test}}.txt",
        alternatives=((TREES,),),
        splits=lambda archive, options: splits(archive, options.phrases),
        words=treebank_words,
        labels=lambda options: labels,
        published=lambda options: {
            split: count
            for split, count in published.items()
            if split != "train" or not options.phrases
        },
        flag=(
            "--phrases",
            "train on every labelled phrase of the trees as well, once for each class it was "
            "given; validation and test stay whole sentences",
        ),
    )


CORPORA = {
    "sst2": _corpus(
        "Stanford Sentiment Treebank, two classes, without neutral sentences",
        binary_splits,
        BINARY,
        {"train": 6_920, "valid": 872, "test": 1_821},
    ),
    "sst5": _corpus(
        "Stanford Sentiment Treebank, five classes",
        fine_splits,
        FINE,
        {"train": 8_544, "valid": 1_101, "test": 2_210},
    ),
}
