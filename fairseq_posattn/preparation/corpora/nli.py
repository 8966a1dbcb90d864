"""Natural language inference: SNLI (Bowman et al., 2015) and MultiNLI (Williams et al., 2018).

The archives hold a JSON object a line, with the sentences parsed: their words are the leaves. Pairs
on which the annotators did not agree, labelled ``-``, have no class. MultiNLI's test sets have no
labels: its matched development set is for validation, the mismatched one for testing. SNLI is also
read as ``s1.train``, ``s2.train``, ``labels.train``, and so on for ``dev`` and ``test``, in tokens.
"""

import json
from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import accumulate

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.corpus import ClassificationCorpus, Flag
from fairseq_posattn.preparation.download import Source
from fairseq_posattn.preparation.example import Example, checked_text, shortened
from fairseq_posattn.text.lines import parallel_lines, read_lines, read_member
from fairseq_posattn.text.words import MARK_WITHIN

LABELS = ("contradiction", "neutral", "entailment")
NO_AGREEMENT = "-"
SNLI_FILES = {
    "train": "snli_1.0_train.jsonl",
    "valid": "snli_1.0_dev.jsonl",
    "test": "snli_1.0_test.jsonl",
}
MULTINLI_FILES = {
    "train": "multinli_1.0_train.jsonl",
    "valid": "multinli_1.0_dev_matched.jsonl",
    "test": "multinli_1.0_dev_mismatched.jsonl",
}
SEPARATE_FILES = {"train": "train", "valid": "dev", "test": "test"}
SHARE_KEPT = 0.97  # of training sentences, by MTSA's released code (its sent_len_rate)


def snli_splits(archive, train_on_dev=False, released_form=False):
    """Return the readers of the splits, by name.

    Args:
        train_on_dev: dev is the training set, and there is no other.
        released_form: training leaves out pairs with one of the longest sentences.
    """
    if archive.has("s1.test"):
        readers = {
            split: partial(separate_examples, archive, ending)
            for split, ending in SEPARATE_FILES.items()
        }
    else:
        readers = json_splits(archive, SNLI_FILES)
    if train_on_dev:
        readers = {"train": readers["valid"], "test": readers["test"]}
    if released_form:
        readers["train"] = partial(without_longest, readers["train"])
    return readers


def without_longest(read):
    """Yield the pairs whose sentences are among the shortest 97% of all sentences.

    Args:
        read: yields the pairs each time that it is called.
    """
    counts = Counter(_length(text) for pair in read() for text in pair.inputs)
    lengths = sorted(counts)
    sums = accumulate(counts[length] for length in lengths)
    longest = next(
        (
            n
            for n, so_far in zip(lengths, sums, strict=True)
            if so_far / counts.total() >= SHARE_KEPT
        ),
        0,
    )
    for pair in read():
        if all(_length(text) <= longest for text in pair.inputs):
            yield pair


def _length(text):
    """Return a sentence's length by MTSA's released code.

    A word with n marks within counts as 2 n + 1: the marks and what is between, blank or not.
    """
    return len(text.split()) + 2 * len(MARK_WITHIN.findall(text))


def json_splits(archive, files):
    """Readers of the splits, by name."""
    return {split: partial(json_examples, archive, member) for split, member in files.items()}


def json_examples(archive, member):
    for place, line in read_member(archive, member):
        try:
            pair = json.loads(line)
            label = pair["gold_label"]
            parses = (pair["sentence1_binary_parse"], pair["sentence2_binary_parse"])
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UsageError(f"{place}: no pair in JSON format: {error}") from None
        parses = [checked_text(parse, place, "a parse") for parse in parses]
        yield Example(_known(label, place), tuple(map(leaves, parses)), place)


def separate_examples(archive, ending):
    members = [f"{kind}.{ending}" for kind in ("labels", "s1", "s2")]
    names = [archive.label(member) for member in members]
    with ExitStack() as open_files:
        sides = {
            name: read_lines(open_files.enter_context(archive.open(member)), name)
            for name, member in zip(names, members, strict=True)
        }
        for number, (label, *pair) in enumerate(parallel_lines(**sides), start=1):
            place = f"{names[0]}:{number}"
            yield Example(_known(label.strip(), place), tuple(pair), place)


def leaves(parse):
    """The words of a binary parse such as ``( ( The dog ) ( runs . ) )``."""
    return " ".join(symbol for symbol in parse.split() if symbol not in "()")


def _known(label, place):
    if label == NO_AGREEMENT:
        return None
    if label not in LABELS:
        raise UsageError(f"{place}: {shortened(label)} is none of {', '.join(LABELS)}")
    return label


SNLI = Source(
    "snli_1.0.zip",
    ("https://nlp.stanford.edu/projects/snli/snli_1.0.zip",),
    "afb3d70a5af5d8de0d9d81e2637e0fb8c22d1235c2749d83125ca43dab0dbd3e",
)
MULTINLI = Source(
    "multinli_1.0.zip",
    ("https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip",),
    "049f507b9e36b1fcb756cfd5aeb3b7a0cfcb84bf023793652987f7e7e0957822",
)


def _add_options(parser):
    parser.add_argument(
        "--released-form",
        action="store_true",
        help="as in MTSA's released code: split words at hyphens, dashes, slashes and quotes, and "
        "leave out of training pairs with a sentence longer than 97%% of its sentences",
    )


def _changes(options):
    if not options.released_form:
        return {}
    return {"word_rule": "treebank-split", "published": {"valid": 9_842, "test": 9_824}}


CORPORA = (
    ClassificationCorpus(
        name="snli",
        summary="SNLI, pairs, three classes",
        source=f"{SNLI.name}, or a folder with its files, or with s1.train, s2.train, labels.train "
        "and the same of dev and test",
        alternatives=((SNLI,),),
        splits=lambda archive, options: snli_splits(
            archive, options.train_on_dev, options.released_form
        ),
        word_rule="treebank",
        labels=LABELS,
        published={"train": 549_367, "valid": 9_842, "test": 9_824},
        recipe="mtsa/table1_snli",
        pairs=True,
        flag=Flag(
            "--train-on-dev",
            "train on the development set, for want of the training set; part of it is held out "
            "for validation",
        ),
        add_options=_add_options,
        settings=lambda options: {"released": True} if options.released_form else {},
        changes=_changes,
    ),
    ClassificationCorpus(
        name="multinli",
        summary="MultiNLI, pairs, three classes; validation matched, test mismatched",
        source=f"{MULTINLI.name}, or a folder with its files",
        alternatives=((MULTINLI,),),
        splits=lambda archive, options: json_splits(archive, MULTINLI_FILES),
        word_rule="treebank",
        labels=LABELS,
        published={"train": 392_702, "valid": 9_815, "test": 9_832},
        recipe="mtsa/table2_multinli",
        pairs=True,
    ),
)
