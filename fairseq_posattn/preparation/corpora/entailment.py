"""Pairs of sentences: SNLI (Bowman et al., 2015), MultiNLI (Williams et al., 2018) and SICK.

Words of SNLI and MultiNLI are the leaves of their parses. Pairs without agreement of the annotators
have no class. MultiNLI's test sets have no labels: the matched development set is for validation,
the mismatched set for testing. SICK (Marelli et al., 2014) has relatedness from 1 to 5, too.
"""

import re
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate

from fairseq_posattn.common.errors import UsageError, counted, shortened
from fairseq_posattn.preparation import examples
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import Readers
from fairseq_posattn.preparation.examples import Example, known_class
from fairseq_posattn.preparation.parallel import read_pairs
from fairseq_posattn.text.words import MARK_WITHIN

NO_AGREEMENT = "-"
KEYS = ("gold_label", "sentence1_binary_parse", "sentence2_binary_parse")
SNLI_PARTS = {"train": "train", "valid": "dev", "test": "test"}
SNLI_FILES = {split: f"snli_1.0_{part}.jsonl" for split, part in SNLI_PARTS.items()}
MULTINLI_FILES = {
    "train": "multinli_1.0_train.jsonl",
    "valid": "multinli_1.0_dev_matched.jsonl",
    "test": "multinli_1.0_dev_mismatched.jsonl",
}
SICK_WHOLE = "SICK.txt"
SICK_PARTS = {"train": "train", "valid": "trial", "test": "test_annotated"}
ENTAILMENT = "entailment_judgment"
SHARE_KEPT = 0.97  # share of training sentences that MTSA's released code keeps (sent_len_rate)


def read_snli(archive: Archive, options: Namespace, classes: Sequence[str]) -> Readers:
    files = SNLI_FILES.items()
    readers = {split: partial(json_examples, archive, file, classes) for split, file in files}
    if archive.has("s1.test"):
        parts = SNLI_PARTS.items()
        readers = {s: partial(separate_examples, archive, part, classes) for s, part in parts}
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


def read_multinli(archive: Archive, options: Namespace, classes: Sequence[str]) -> Readers:
    files = MULTINLI_FILES.items()
    return {split: partial(json_examples, archive, file, classes) for split, file in files}


def json_examples(archive: Archive, member: str, classes: Sequence[str]) -> Iterator[Example]:
    for location, (label, *parses) in examples.read_objects(archive, member, "pair", *KEYS):
        trees = [examples.checked_text(parse, location, "a parse").split() for parse in parses]
        texts = (" ".join(word for word in tree if word not in "()") for tree in trees)
        yield Example(_class(label, location, classes), tuple(texts), location)


def separate_examples(archive: Archive, part: str, classes: Sequence[str]) -> Iterator[Example]:
    sides = [f"{name}.{part}" for name in ("labels", "s1", "s2")]
    name = archive.label(f"labels.{part}")
    for number, (label, *pair) in enumerate(read_pairs(archive, [sides]), start=1):
        location = f"{name}:{number}"
        yield Example(_class(label.strip(), location, classes), tuple(pair), location)


def _class(label: str, location: str, classes: Sequence[str]) -> str | None:
    return None if label == NO_AGREEMENT else known_class(label, classes, location)


def read_sick(archive: Archive, options: Namespace, classes: Sequence[str]) -> Readers:
    pairs = partial(sick_examples, archive, classes)
    files = {split: f"SICK_{part}.txt" for split, part in SICK_PARTS.items()}
    if archive.has(SICK_WHOLE) and not archive.has(files["train"]):
        sets = {split: part.partition("_")[0].upper() for split, part in SICK_PARTS.items()}
        return {split: partial(pairs, SICK_WHOLE, part) for split, part in sets.items()}
    return {split: partial(pairs, file) for split, file in files.items()}


def sick_examples(
    archive: Archive, classes: Sequence[str], member: str, part: str | None = None
) -> Iterator[Example]:
    """Yield the pairs of a file, or only those of a part of SemEval."""
    lines = archive.numbered_lines(member)
    location, header = next(lines)
    columns = header.replace("entailment_label", ENTAILMENT).split("\t")
    needed = {"sentence_A", "sentence_B", "relatedness_score", ENTAILMENT}
    if missing := sorted(needed.union(["SemEval_set"] if part else []).difference(columns)):
        raise UsageError(f"{location}: the columns {', '.join(missing)} are missing")
    for location, line in lines:
        fields = line.split("\t")
        if len(fields) != len(columns):
            raise UsageError(
                f"{location}: {counted(len(fields), 'field')}, but {len(columns)} columns"
            )
        row = dict(zip(columns, map(str.strip, fields), strict=True))
        if part is None or row["SemEval_set"] == part:
            label = known_class(row[ENTAILMENT], classes, location)
            text = row["relatedness_score"]
            if not re.fullmatch(r"[1-4](\.\d*)?|5(\.0*)?", text):
                raise UsageError(f"{location}: {shortened(text)} is not a number from 1 to 5")
            yield Example(label, (row["sentence_A"], row["sentence_B"]), location, float(text))
