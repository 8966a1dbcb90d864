"""Pairs of sentences: SNLI (Bowman et al., 2015) and MultiNLI (Williams et al., 2018).

Words of SNLI and MultiNLI are the leaves of their parses. Pairs without agreement of the annotators
have no class. MultiNLI's test sets have no labels: the matched development set is for validation,
the mismatched one for testing.
"""

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import accumulate
from typing import Any

from fairseq_posattn.preparation import examples
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import ClassificationCorpus, Readers
from fairseq_posattn.preparation.download import published_at
from fairseq_posattn.preparation.examples import Example
from fairseq_posattn.preparation.parallel import read_pairs
from fairseq_posattn.text.words import MARK_WITHIN

LABELS = ("contradiction", "neutral", "entailment")
NO_AGREEMENT = "-"
KEYS = ("gold_label", "sentence1_binary_parse", "sentence2_binary_parse")
SNLI_PARTS = {"train": "train", "valid": "dev", "test": "test"}
SNLI_FILES = {split: f"snli_1.0_{part}.jsonl" for split, part in SNLI_PARTS.items()}
MULTINLI_FILES = {
    "train": "multinli_1.0_train.jsonl",
    "valid": "multinli_1.0_dev_matched.jsonl",
    "test": "multinli_1.0_dev_mismatched.jsonl",
}
SHARE_KEPT = 0.97  # share of training sentences that MTSA's released code keeps (sent_len_rate)
SNLI = published_at(
    "snli_1.0.zip",
    "https://nlp.stanford.edu/projects/snli",
    sha256="afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
)
MULTINLI = published_at(
    "multinli_1.0.zip",
    "https://cims.nyu.edu/~sbowman/multinli",
    sha256="049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822",
)
TESTED: dict[str, int | str] = {"valid": 9_842, "test": 9_824}
PAIRS: dict[str, Any] = {"word_rule": "treebank", "labels": LABELS, "pairs": True}


def read_snli(archive: Archive, options: Namespace) -> Readers:
    readers = dict(read_json(SNLI_FILES, archive, options))
    if archive.has("s1.test"):
        parts = SNLI_PARTS.items()
        readers = {split: partial(separate_examples, archive, part) for split, part in parts}
    if options.train_on_dev:
        readers = {"train": readers["valid"], "test": readers["test"]}
    if options.released_form:
        readers["train"] = partial(without_longest, readers["train"])
    return readers


def without_longest(read: Callable[[], Iterator[Example]]) -> Iterator[Example]:
    """Yield the pairs whose sentences are among the shortest 97%; ``read`` yields all pairs."""
    counts = Counter(_length(text) for pair in read() for text in pair.inputs)
    lengths = sorted(counts)
    sums = accumulate(counts[length] for length in lengths)
    shares = (so_far / counts.total() for so_far in sums)
    longest = next((n for n, kept in zip(lengths, shares, strict=True) if kept >= SHARE_KEPT), 0)
    for pair in read():
        if all(_length(text) <= longest for text in pair.inputs):
            yield pair


def _length(text: str) -> int:
    """Return a length by MTSA's released code: a word with n marks within counts as 2 n + 1."""
    return len(text.split()) + 2 * len(MARK_WITHIN.findall(text))


def read_json(files: Mapping[str, str], archive: Archive, options: Namespace) -> Readers:
    return {split: partial(json_examples, archive, file) for split, file in files.items()}


def json_examples(archive: Archive, member: str) -> Iterator[Example]:
    for place, (label, *parses) in examples.read_objects(archive, member, "pair", *KEYS):
        trees = [examples.checked_text(parse, place, "a parse").split() for parse in parses]
        texts = (" ".join(word for word in tree if word not in "()") for tree in trees)
        yield Example(_class(label, place), tuple(texts), place)


def separate_examples(archive: Archive, part: str) -> Iterator[Example]:
    sides = [f"{name}.{part}" for name in ("labels", "s1", "s2")]
    name = archive.label(f"labels.{part}")
    for number, (label, *pair) in enumerate(read_pairs(archive, [sides]), start=1):
        place = f"{name}:{number}"
        yield Example(_class(label.strip(), place), tuple(pair), place)


def _class(label: str, place: str) -> str | None:
    return None if label == NO_AGREEMENT else examples.known_class(label, LABELS, place)


CORPORA = (
    ClassificationCorpus(
        name="snli",
        summary="SNLI, pairs, three classes",
        source=f"{SNLI.name}, or a folder with its files, or with s1.train, s2.train, labels.train "
        "and the same of dev and test",
        alternatives=((SNLI,),),
        read=read_snli,
        published={"train": 549_367, **TESTED},
        recipe="mtsa/table1_snli",
        flags={
            "--train-on-dev": "train on the development set, if you lack the training set; part of "
            "it is held out for validation",
            "--released-form": "as in MTSA's released code: split words at hyphens, dashes, "
            "slashes and quotes, and leave out training pairs with a sentence longer than 97%% of "
            "all sentences",
        },
        changes=lambda options: (
            {"word_rule": "treebank-split", "published": TESTED} if options.released_form else {}
        ),
        **PAIRS,
    ),
    ClassificationCorpus(
        name="multinli",
        summary="MultiNLI, pairs, three classes; validation matched, test mismatched",
        source=f"{MULTINLI.name}, or a folder with its files",
        alternatives=((MULTINLI,),),
        read=partial(read_json, MULTINLI_FILES),
        published={"train": 392_702, "valid": 9_815, "test": 9_832},
        recipe="mtsa/table2_multinli",
        **PAIRS,
    ),
)
