"""Pairs of sentences: SNLI (Bowman et al., 2015), MultiNLI (Williams et al., 2018) and SICK.

Words of SNLI and MultiNLI are the leaves of their parses. Pairs without agreement of the annotators
have no class. MultiNLI's test sets have no labels: the matched development set is for validation,
the mismatched one for testing. SICK (Marelli et al., 2014) has relatedness from 1 to 5, too.
"""

import re
from collections import Counter
from functools import partial
from itertools import accumulate

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation import examples
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.download import published_at
from fairseq_posattn.preparation.examples import Example
from fairseq_posattn.preparation.parallel import read_pairs
from fairseq_posattn.text.lines import read_member
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
TESTED = {"valid": 9_842, "test": 9_824}
PAIRS = {"word_rule": "treebank", "labels": LABELS, "pairs": True}
SICK_LABELS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
WHOLE = "SICK.txt"
PARTS = {"train": "train", "valid": "trial", "test": "test_annotated"}
ENTAILMENT = "entailment_judgment"
SEMEVAL = "https://alt.qcri.org/semeval2014/task1/data/uploads"


def snli_splits(archive, options):
    readers = json_splits(SNLI_FILES, archive, options)
    if archive.has("s1.test"):
        parts = SNLI_PARTS.items()
        readers = {split: partial(separate_examples, archive, part) for split, part in parts}
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
    """Return a length by MTSA's released code: a word with n marks within counts as 2 n + 1."""
    return len(text.split()) + 2 * len(MARK_WITHIN.findall(text))


def json_splits(files, archive, options):
    return {split: partial(json_examples, archive, file) for split, file in files.items()}


def json_examples(archive, member):
    for place, (label, *parses) in examples.read_objects(archive, member, "pair", *KEYS):
        parses = [examples.checked_text(parse, place, "a parse").split() for parse in parses]
        texts = (" ".join(word for word in parse if word not in "()") for parse in parses)
        yield Example(_class(label, place), tuple(texts), place)


def separate_examples(archive, part):
    sides = [(archive, f"{name}.{part}") for name in ("labels", "s1", "s2")]
    name = archive.label(f"labels.{part}")
    for number, (label, *pair) in enumerate(read_pairs([sides]), start=1):
        place = f"{name}:{number}"
        yield Example(_class(label.strip(), place), tuple(pair), place)


def _class(label, place):
    return None if label == NO_AGREEMENT else examples.known_class(label, LABELS, place)


def sick_splits(archive, options):
    files = {split: f"SICK_{part}.txt" for split, part in PARTS.items()}
    if archive.has(WHOLE) and not archive.has(files["train"]):
        sets = {split: part.partition("_")[0].upper() for split, part in PARTS.items()}
        return {split: partial(sick_examples, archive, WHOLE, one) for split, one in sets.items()}
    return {split: partial(sick_examples, archive, file) for split, file in files.items()}


def sick_examples(archive, member, part=None):
    """Yield the pairs of a file, or only those of a part of SemEval."""
    lines = read_member(archive, member)
    place, header = next(lines)
    columns = header.replace("entailment_label", ENTAILMENT).split("\t")
    needed = {"sentence_A", "sentence_B", "relatedness_score", ENTAILMENT}
    if missing := sorted(needed.union(["SemEval_set"] if part else []).difference(columns)):
        raise UsageError(f"{place}: the columns {', '.join(missing)} are missing")
    for place, line in lines:
        fields = line.split("\t")
        if len(fields) != len(columns):
            raise UsageError(f"{place}: {len(fields)} fields, but {len(columns)} columns")
        row = dict(zip(columns, map(str.strip, fields), strict=True))
        if part is None or row["SemEval_set"] == part:
            label = examples.known_class(row[ENTAILMENT], SICK_LABELS, place)
            text = row["relatedness_score"]
            if not re.fullmatch(r"[1-4](\.\d*)?|5(\.0*)?", text):
                raise UsageError(f"{place}: {shortened(text)} is not a number from 1 to 5")
            yield Example(label, (row["sentence_A"], row["sentence_B"]), place, float(text))


CORPORA = (
    ClassificationCorpus(
        name="sick",
        summary="SICK, pairs: relatedness from 1 to 5, and entailment",
        source="a folder with SICK_train.txt, SICK_trial.txt and SICK_test_annotated.txt, or with "
        "SemEval's zips of them; or SICK.zip",
        alternatives=(
            tuple(published_at(f"sick_{part}.zip", SEMEVAL) for part in PARTS.values()),
            (  # the authors', with some pairs fewer than SemEval's
                published_at(
                    "SICK.zip",
                    "https://zenodo.org/records/2787612/files",
                    sha256="da272af924399fc2de4889ed55383e38822c10d16c4a949a89d597d09a0b7912",
                ),
            ),
        ),
        splits=sick_splits,
        word_rule="moses",
        labels=SICK_LABELS,
        published={"train": 4_500, "valid": 500, "test": 4_927},
        recipe="mpsan/table7_sick",
        metrics=("pearson", "spearman", "mse"),
        pairs=True,
        scored=True,
        scores=5,
    ),
    ClassificationCorpus(
        name="snli",
        summary="SNLI, pairs, three classes",
        source=f"{SNLI.name}, or a folder with its files, or with s1.train, s2.train, labels.train "
        "and the same of dev and test",
        alternatives=((SNLI,),),
        splits=snli_splits,
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
        splits=partial(json_splits, MULTINLI_FILES),
        published={"train": 392_702, "valid": 9_815, "test": 9_832},
        recipe="mtsa/table2_multinli",
        **PAIRS,
    ),
)
