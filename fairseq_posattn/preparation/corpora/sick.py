"""SICK (Marelli et al., 2014): pairs of sentences with relatedness from 1 to 5, and entailment."""

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from functools import partial

from fairseq_posattn.common.errors import UsageError, shortened
from fairseq_posattn.preparation.archives import Archive
from fairseq_posattn.preparation.corpus import Readers
from fairseq_posattn.preparation.examples import Example, known_class

WHOLE = "SICK.txt"
PARTS = {"train": "train", "valid": "trial", "test": "test_annotated"}
ENTAILMENT = "entailment_judgment"


def read(archive: Archive, options: Namespace, classes: Sequence[str]) -> Readers:
    examples = partial(sick_examples, archive, classes)
    files = {split: f"SICK_{part}.txt" for split, part in PARTS.items()}
    if archive.has(WHOLE) and not archive.has(files["train"]):
        sets = {split: part.partition("_")[0].upper() for split, part in PARTS.items()}
        return {split: partial(examples, WHOLE, one) for split, one in sets.items()}
    return {split: partial(examples, file) for split, file in files.items()}


def sick_examples(
    archive: Archive, classes: Sequence[str], member: str, part: str | None = None
) -> Iterator[Example]:
    """Yield the pairs of a file, or only those of a part of SemEval."""
    lines = archive.numbered_lines(member)
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
            label = known_class(row[ENTAILMENT], classes, place)
            text = row["relatedness_score"]
            if not re.fullmatch(r"[1-4](\.\d*)?|5(\.0*)?", text):
                raise UsageError(f"{place}: {shortened(text)} is not a number from 1 to 5")
            yield Example(label, (row["sentence_A"], row["sentence_B"]), place, float(text))
