"""Natural language inference: SNLI (Bowman et al., 2015) and MultiNLI (Williams et al., 2018).

The archives hold a JSON object a line; words are the leaves of its parses. Pairs without agreement
of the annotators, labeled ``-``, have no class. MultiNLI's test sets have no labels: the matched
development set is for validation, the mismatched one for testing. SNLI is also read in tokens, from
``s1.train``, ``s2.train``, ``labels.train``, and so on for ``dev`` and ``test``.
"""

from collections import Counter
from functools import partial
from itertools import accumulate

from fairseq_posattn.preparation.corpus import ClassificationCorpus, Flag
from fairseq_posattn.preparation.download import published_at
from fairseq_posattn.preparation.labeled_text import (
    Example,
    checked_text,
    known_class,
    read_objects,
)
from fairseq_posattn.preparation.pairs import read_pairs
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


def snli_splits(archive, options):
    """Return the readers of the splits, by name."""
    if archive.has("s1.test"):
        parts = SNLI_PARTS.items()
        readers = {split: partial(separate_examples, archive, part) for split, part in parts}
    else:
        readers = json_splits(SNLI_FILES, archive, options)
    if options.train_on_dev:
        readers = {"train": readers["valid"], "test": readers["test"]}
    if options.released_form:
        readers["train"] = partial(without_longest, readers["train"])
    return readers


def without_longest(read):
    """Yield the pairs whose sentences are among the shortest 97%; ``read`` yields all pairs."""
    counts = Counter(_length(text) for pair in read() for text in pair.inputs)
    lengths = sorted(counts)
    sums = accumulate(counts[length] for length in lengths)
    shares = (so_far / counts.total() for so_far in sums)
    longest = next((n for n, kept in zip(lengths, shares, strict=True) if kept >= SHARE_KEPT), 0)
    for pair in read():
        if all(_length(text) <= longest for text in pair.inputs):
            yield pair


def _length(text):
    """Return a sentence's length by MTSA's released code.

    A word with n marks within counts as 2 n + 1: the marks and what is between, blank or not.
    """
    return len(text.split()) + 2 * len(MARK_WITHIN.findall(text))


def json_splits(files, archive, options):
    return {split: partial(json_examples, archive, file) for split, file in files.items()}


def json_examples(archive, member):
    for place, (label, *parses) in read_objects(archive, member, "pair", *KEYS):
        texts = tuple(leaves(checked_text(parse, place, "a parse")) for parse in parses)
        yield Example(_class(label, place), texts, place)


def separate_examples(archive, part):
    sides = [(archive, f"{name}.{part}") for name in ("labels", "s1", "s2")]
    name = archive.label(f"labels.{part}")
    for number, (label, *pair) in enumerate(read_pairs([sides]), start=1):
        place = f"{name}:{number}"
        yield Example(_class(label.strip(), place), tuple(pair), place)


def leaves(parse):
    """Return the words of a binary parse such as ``( ( The dog ) ( runs . ) )``."""
    return " ".join(symbol for symbol in parse.split() if symbol not in "()")


def _class(label, place):
    return None if label == NO_AGREEMENT else known_class(label, LABELS, place)


TESTED = {"valid": 9_842, "test": 9_824}
PAIRS = {"word_rule": "treebank", "labels": LABELS, "pairs": True}
CORPORA = (
    ClassificationCorpus(
        name="snli",
        summary="SNLI, pairs, three classes",
        source=f"{SNLI.name}, or a folder with its files, or with s1.train, s2.train, labels.train "
        "and the same of dev and test",
        alternatives=((SNLI,),),
        splits=snli_splits,
        published={"train": 549_367, **TESTED},
        recipe="mtsa/table1_snli",
        flags=(
            Flag(
                "--train-on-dev",
                "train on the development set, if you lack the training set; part of it is held "
                "out for validation",
            ),
            Flag(
                "--released-form",
                "as in MTSA's released code: split words at hyphens, dashes, slashes and quotes, "
                "and leave out training pairs with a sentence longer than 97%% of all sentences",
            ),
        ),
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
        splits=partial(json_splits, MULTINLI_FILES),
        published={"train": 392_702, "valid": 9_815, "test": 9_832},
        recipe="mtsa/table2_multinli",
        **PAIRS,
    ),
)
