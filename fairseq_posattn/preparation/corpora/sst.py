"""The Stanford Sentiment Treebank (Socher et al., 2013): SST-5 and SST-2.

The archive holds ``trees/{train,dev,test}.txt``, a tree a line in which every phrase is labelled
from 0 (very negative) to 4 (very positive). SST-2 merges 0 with 1 and 3 with 4 and drops what is
neutral.

Training is on whole sentences, or on phrases too: then every sentence is followed by those of its
phrases that did not occur before with the same class; or by all of its phrases, and what is not
neutral, and each sentence, is there four times, as in the published code of DiSAN and Bi-BloSAN.
Validation and test are whole sentences.
"""

import re
from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import ClassificationCorpus, Flag
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.example import Example, shortened
from fairseq_posattn.text.lines import read_member

FINE = ("very_negative", "negative", "neutral", "positive", "very_positive")
BINARY = ("negative", "positive")
NAMES = {  # of the numbered classes; what has none is dropped
    "sst2": {0: "negative", 1: "negative", 3: "positive", 4: "positive"},
    "sst5": dict(enumerate(FINE)),
}
FILES = {"train": "trees/train.txt", "valid": "trees/dev.txt", "test": "trees/test.txt"}
NEUTRAL = 2  # among the numbered classes
WEIGHT = 4  # of sentences, and of phrases that are not neutral
MOST_NODES = 5_000  # the largest tree has 111; each node holds its words
TREE_SYMBOLS = re.compile(r"[()]|[^\s()]+")


def splits(archive, names, phrases=False, cased=False, weighted=False):
    """Readers of train, valid and test, by name.

    Args:
        names: of the numbered classes; a phrase whose class has none is dropped.
        phrases: train on phrases too.
        cased: phrases that differ in capitals alone are different.
        weighted: train on all phrases, and four times on sentences and on what is not neutral.
    """
    readers = {
        split: partial(examples, archive, member, names, phrases and split == "train", cased)
        for split, member in FILES.items()
    }
    if weighted:
        readers["train"] = partial(weighted_examples, archive, FILES["train"], names)
    return readers


def examples(archive, member, names, phrases, cased):
    """The sentences of one file of trees, and their phrases if they are wanted."""
    seen = set()
    for place, found in trees(archive, member):
        for is_phrase, (label, words) in enumerate(found if phrases else found[:1]):
            key = (names.get(label), words if cased else words.lower())
            if label in names and not (is_phrase and key in seen):
                seen.add(key)
                yield Example(names[label], (words,), place)


def weighted_examples(archive, member, names):
    """The sentences and all phrases of one file of trees, as often as the published code has them.

    It weights five classes only: of two, which leave out what is neutral, all are there once.
    """
    for place, found in trees(archive, member):
        for is_phrase, (label, words) in enumerate(found):
            if label in names:
                once = NEUTRAL not in names or (is_phrase and label == NEUTRAL)
                yield from [Example(names[label], (words,), place)] * (1 if once else WEIGHT)


def trees(archive, member):
    """Of each line of one file its place and its labelled phrases."""
    for place, line in read_member(archive, member):
        yield place, labelled_phrases(line, place)


def labelled_phrases(tree, place):
    """``(class number, words joined by spaces)`` of each node of a tree, parents before children.

    Raises:
        UsageError: it is not one whole tree.
    """
    found, open_nodes, words, expects_label = [], [], [], False
    for symbol in TREE_SYMBOLS.findall(tree):
        if open_nodes == [] and found:
            raise UsageError(f"{place}: there is more on the line after its tree")
        if symbol == "(" and not expects_label:
            open_nodes.append(len(found))
            if len(found) == MOST_NODES:
                raise UsageError(f"{place}: a tree of more than {MOST_NODES:,} nodes")
            found.append((None, len(words)))
            expects_label = True
        elif expects_label:
            if symbol not in tuple("01234"):
                raise UsageError(
                    f"{place}: {shortened(symbol)} stands where a class from 0 to 4 should"
                )
            found[-1] = (int(symbol), found[-1][1])
            expects_label = False
        elif not open_nodes:
            raise UsageError(f"{place}: not a labelled tree such as (3 (2 It) (4 works))")
        elif symbol == ")":
            node = open_nodes.pop()
            label, start = found[node]
            if start == len(words):
                raise UsageError(f"{place}: a node of the tree has no words")
            found[node] = (label, " ".join(words[start:]))
        else:
            words.append(symbol)
    if open_nodes or not found:
        raise UsageError(f"{place}: the tree ends before its brackets are closed")
    return found


TREES = Source(
    "trainDevTestTrees_PTB.zip",
    ("https://nlp.stanford.edu/sentiment/trainDevTestTrees_PTB.zip",),
    "5c613a4f673fc74097d523a2c83f38e0cc462984d847b82c7aaf36b01cbbbfcc",
)


def add_options(parser):
    parser.add_argument(
        "--weighted-phrases",
        action="store_true",
        help="train on every labelled phrase wherever it occurs, and of sst5 four times on whole "
        "sentences and on phrases that are not neutral, as in the published code of DiSAN "
        "and Bi-BloSAN",
    )


def _corpus(name, summary, labels, published, recipe):
    sentences = {split: published[split] for split in ("valid", "test")}
    return ClassificationCorpus(
        name=name,
        summary=summary,
        source=f"{TREES.name}, or a folder with trees/{{train,dev,test}}.txt",
        alternatives=((TREES,),),
        splits=lambda archive, options: splits(
            archive, NAMES[name], options.phrases, options.cased, options.weighted_phrases
        ),
        word_rule="treebank",
        labels=labels,
        published=published,
        recipe=recipe,
        flag=Flag(
            "--phrases",
            "train on every labelled phrase of the trees as well, once for each class it was "
            "given; validation and test stay whole sentences",
        ),
        add_options=add_options,
        settings=lambda options: {"weighted": True} if options.weighted_phrases else {},
        changes=lambda options: (
            {"published": sentences} if options.phrases or options.weighted_phrases else {}
        ),
    )


CORPORA = (
    _corpus(
        "sst2",
        "Stanford Sentiment Treebank, two classes, without neutral sentences",
        BINARY,
        {"train": 6_920, "valid": 872, "test": 1_821},
        "da_transformer/table4_sst_snli",
    ),
    _corpus(
        "sst5",
        "Stanford Sentiment Treebank, five classes",
        FINE,
        {"train": 8_544, "valid": 1_101, "test": 2_210},
        "mpsan/table1_sst",
    ),
)
