"""The Stanford Sentiment Treebank (Socher et al., 2013): SST-5 and SST-2, without neutral phrases.

Training is on sentences, or on phrases, too: on those that did not occur before with the same
class; or, as in the released code of DiSAN and Bi-BloSAN, on all, and four times on sentences and
on phrases that are not neutral. Validation and test are sentences.
"""

import re
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import Readers
from fairseq_posattn.preparation.examples import Example

FILES = {"train": "trees/train.txt", "valid": "trees/dev.txt", "test": "trees/test.txt"}
NEUTRAL = 2
WEIGHT = 4  # of sentences, and of phrases that are not neutral
MOST_NODES = 5_000  # the largest tree has 111; each node stores its words
TREE_SYMBOLS = re.compile(r"\(\s*([0-4])(?=[\s(])|(\))|(\(|[^\s()]+)")


def read(archive: Archive, options: Namespace, names: Mapping[int, str]) -> Readers:
    """Map numbered classes to ``names``; phrases of other classes are dropped."""
    readers: dict[str, Callable[[], Iterator[Example]]]
    readers = {split: partial(examples, archive, member, names) for split, member in FILES.items()}
    if options.phrases:
        train = partial(examples, archive, FILES["train"], names)
        readers["train"] = partial(train, phrases=True, cased=options.cased)
    if options.weighted_phrases:
        readers["train"] = partial(weighted_examples, archive, FILES["train"], names)
    return readers


def examples(
    archive: Archive,
    member: str,
    names: Mapping[int, str],
    phrases: bool = False,
    cased: bool = False,
) -> Iterator[Example]:
    """Yield the sentences of one file of trees and, if wanted, their phrases."""
    seen = set()
    for location, line in archive.numbered_lines(member):
        nodes = labeled_phrases(line, location)
        for is_phrase, (label, words) in enumerate(nodes if phrases else nodes[:1]):
            key = (names.get(label), words if cased else words.lower())
            if label in names and not (is_phrase and key in seen):
                seen.add(key)
                yield Example(names[label], (words,), location)


def weighted_examples(archive: Archive, member: str, names: Mapping[int, str]) -> Iterator[Example]:
    """Repeat sentences and phrases as the released code does: it weights five classes only."""
    for location, line in archive.numbered_lines(member):
        for is_phrase, (label, words) in enumerate(labeled_phrases(line, location)):
            if label in names:
                once = NEUTRAL not in names or (is_phrase and label == NEUTRAL)
                yield from [Example(names[label], (words,), location)] * (1 if once else WEIGHT)


def labeled_phrases(tree: str, location: str) -> list[tuple[int, str]]:
    """Return ``(class number, words)`` of each node of a tree, parents before children."""
    nodes: list[list[int]] = []  # class, first word and end of each node
    open_nodes: list[int] = []
    words: list[str] = []
    is_tree = True
    for label, end, word in TREE_SYMBOLS.findall(tree):
        is_tree &= word != "(" and bool(open_nodes or not nodes and label)
        if not is_tree:
            break
        if label:
            open_nodes.append(len(nodes))
            nodes.append([int(label), len(words)])
            if len(nodes) > MOST_NODES:
                raise UsageError(f"{location}: a tree of more than {MOST_NODES:,} nodes")
        elif end:
            nodes[open_nodes.pop()].append(len(words))
        else:
            words.append(word)
    if open_nodes or not nodes or not is_tree:
        raise UsageError(f"{location}: not a labeled tree such as (3 (2 It) (4 works))")
    return [(label, " ".join(words[start:end])) for label, start, end in nodes]
