"""SICK (Marelli et al., 2014): pairs of sentences, their relatedness from 1 to 5, their entailment.

SemEval's files are ``SICK_train.txt``, ``SICK_trial.txt`` for validation and
``SICK_test_annotated.txt``; the authors' one file ``SICK.txt`` names SemEval's part of each pair.
"""

from functools import partial

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.corpus import ClassificationCorpus
from fairseq_posattn.preparation.download import published_at
from fairseq_posattn.preparation.labeled_text import Example, known_class
from fairseq_posattn.text.lines import read_member

LABELS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
FILES = {"train": "SICK_train.txt", "valid": "SICK_trial.txt", "test": "SICK_test_annotated.txt"}
WHOLE = "SICK.txt"
PARTS = {"train": "TRAIN", "valid": "TRIAL", "test": "TEST"}
ENTAILMENT = "entailment_judgment"
SEMEVAL = "https://alt.qcri.org/semeval2014/task1/data/uploads"
ZIPS = ("sick_train.zip", "sick_trial.zip", "sick_test_annotated.zip")


def splits(archive, options):
    if archive.has(WHOLE) and not archive.has(FILES["train"]):
        return {split: partial(examples, archive, WHOLE, part) for split, part in PARTS.items()}
    return {split: partial(examples, archive, member) for split, member in FILES.items()}


def examples(archive, member, part=None):
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
            label = known_class(row[ENTAILMENT], LABELS, place)
            score = _relatedness(row["relatedness_score"], place)
            yield Example(label, (row["sentence_A"], row["sentence_B"]), place, score)


def _relatedness(text, place):
    try:
        score = float(text)
    except ValueError:
        score = float("nan")
    if not 1 <= score <= 5:
        raise UsageError(f"{place}: the relatedness {shortened(text)} is not a number from 1 to 5")
    return score


CORPORA = (
    ClassificationCorpus(
        name="sick",
        summary="SICK, pairs: relatedness from 1 to 5, and entailment",
        source="a folder with SICK_train.txt, SICK_trial.txt and SICK_test_annotated.txt, or with "
        "SemEval's zips of them; or SICK.zip",
        alternatives=(
            tuple(published_at(name, SEMEVAL) for name in ZIPS),
            (  # the authors', with some pairs fewer than SemEval's
                published_at(
                    "SICK.zip",
                    "https://zenodo.org/records/2787612/files",
                    sha256="da272af924399fc2de4889ed55383e38822c10d16c4a949a89d597d09a0b7912",
                ),
            ),
        ),
        splits=splits,
        word_rule="moses",
        labels=LABELS,
        published={"train": 4_500, "valid": 500, "test": 4_927},
        recipe="mpsan/table7_sick",
        metrics=("pearson", "spearman", "mse"),
        pairs=True,
        scored=True,
        scores=5,
    ),
)
