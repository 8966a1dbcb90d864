"""The papers' numbers are those that the papers print, in their rows and their columns.

Most tables of the papers' texts are lines, a row each: the label finds the row, the order the
columns. The numbers of other tables are looked up in the whole text.
"""

import os
import re
from decimal import ROUND_DOWN, Decimal
from pathlib import Path

import pytest

from fairseq_posattn.recipes.papers import RECIPES

PAPERS = Path(os.environ.get("PAPERS") or Path(__file__).parents[3] / "shared" / "papers")
needs_papers = pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers' text is not here")

CAPTION = re.compile(r"Table (\d+): ")
MARKUP = re.compile(r"</?[bu]>|^\*")
REFERENCE = re.compile(r"\([^()]*\d{4}[a-z]?\)")  # (Kim, 2014)
NUMBER = re.compile(r"\d+(?:\.\d+)?|(?<=\s)-(?=\s|$)")
LONGEST_TABLE = 80  # lines

EIGHT = " ".join(map(str, range(8)))
# Columns P R F1 Comp. of development, WSJ and Brown, after the hours of training.
ROLES = "7 5 6 8 11 9 10 12 3 1 2 4"
# For each table of lines: its number; the positions of the columns on the paper's line; and the
# labels that are not the names of our rows. EWT and "paper" rows have no numbers.
LINES = f"""
    da_transformer/table3_documents | 3 | {EIGHT}
    da_transformer/table4_sst_snli  | 4 | {EIGHT}
    da_transformer/table5_mind      | 5 | {EIGHT}
    dman/cnn_dailymail              | 2 | 0 1 2 3 | DMAN (released form) = Ours
    dman/gigaword                   | 2 | 4 5 6 7 | DMAN (released form) = Ours
    dman/iwslt14                    | 1 | 0 | DMAN (released form) = Ours
    dman/table3_sublayers           | 3 | 0 | C#1 (released form) = C#1 FFN→SAN→FFN; \
C#2 (released form) = C#2 SAN→SAN→FFN; C#3 (released form) = C#3 DMAN→DMAN→FFN; \
C#4 (released form) = C#4 SAN→DMAN→FFN; C#5 (released form) = C#5 DMAN→SAN→FFN
    dman/table4_static_masks        | 4 | 0 | SMAN1 (released form) = SMAN1; \
SMAN2 (released form) = SMAN2; DMAN (released form) = DMAN
    dman/table5_locality            | 5 | 0 1 2
    dman/wmt14_base                 | 1 | 2 | DMAN (released form) = Ours
    dman/wmt14_big                  | 1 | 4 | DMAN (released form) = Ours
    mpsan/table1_sst                | 1 | 2 0 1 | Multi-head = Multi-head-SANh; \
CNN = CNN-non-staticd; Bi-LSTM = Bi-LSTMb; Bi-LSTM-SAN = Bi-LSTM-SANh; DiSAN = DiSANh; \
Bi-BloSAN = Bi-BloSANi; MPSAN = Our MPSAN
    mpsan/table3_fusion             | 3 | 2 0 1
    mpsan/table4_dimensions         | 4 | 2 0 1
    mpsan/table5_components         | 5 | 2 0 1 | w/o fusion = MPSAN w/o fusion; \
w/o position = MPSAN w/o position; w/o attention = MPSAN w/o attention
    mpsan/table6_sentences          | 6 | {EIGHT}
    mpsan/table7_sick               | 7 | 0 1 2 | Bi-LSTM = Bi-LSTMa; Multi-CNN = Multi-CNNb; \
Hrchy-CNN = Hrchy-CNNc; Multi-head = Multi-headd; DiSAN = DISANe; Bi-BloSAN = Bi-BloSANf
    mtsa/table1_snli                | 1 | 5 4 0 1 2 3
    mtsa/table2_transfer            | 2 | 1 0 3 2
    mtsa/table3_ablations           | 3 | 2 0 1 | w/o fw&bw masks = MTSA w/o fw&bw masks; \
w/o token2token = MTSA w/o token2token; w/o source2token = MTSA w/o source2token; \
w/o proposed modules = MTSA w/o proposed modules
    mtsa/table4_roles               | 4 | {ROLES} | Multi-head = Multi-head∗
    mtsa/table5_sentences           | 5 | {EIGHT} 8 9 | cBoW = cBoWa
"""
LINES = {
    name: (int(number), list(map(int, columns.split())), dict(labels))
    for name, number, columns, *more in (
        [cell.strip() for cell in line.split("|")] for line in LINES.strip().splitlines()
    )
    for labels in [[pair.strip().split(" = ") for text in more for pair in text.split(";")]]
}
# Tables whose numbers stand in columns, or lack labels, in the papers' text.
UNLABELED = ["mpsan/table2_masks", "mtsa/table6_setup1", "mtsa/table6_setup2"]
UNLABELED += [f"cspan/{table}" for table in ("table3_components", "table4_sizes", "table5_fusion")]
UNLABELED += ["cspan/table2_documents"]


def published(name):
    """Return the numbers by row, deviations after them."""
    locality = getattr(RECIPES[name], "locality", None)
    rows = locality.rows if locality else RECIPES[name].rows
    return {row.name: re.split("[ ±]", row.paper) for row in rows if row.paper.strip("- ")}


def lines_of(paper):
    text = (PAPERS / f"{paper}.txt").read_text(encoding="utf-8")
    return [MARKUP.sub("", line) for line in text.splitlines()]


def table(name, number):
    """Return the lines above the caption, after that of the previous table."""
    lines = lines_of(RECIPES[name].paper)
    captions = {int(match[1]): i for i, line in enumerate(lines) if (match := CAPTION.match(line))}
    end = captions[number]
    start = max([end - LONGEST_TABLE, 0, *(i + 1 for i in captions.values() if i < end)])
    return lines[start:end]


def numbers_of(label, lines):
    """Return the numbers of the one line with nothing but a label and references before them."""
    begins = re.compile(rf"{re.escape(label)}(?=\s+[\d-])")
    plain = (REFERENCE.sub("", line) for line in lines)
    (numbers,) = [NUMBER.findall(line, len(label)) for line in plain if begins.match(line)]
    return numbers


@needs_papers
@pytest.mark.parametrize("name", LINES)
def test_a_row_is_the_papers_line(name):
    number, columns, labels = LINES[name]
    lines, rows = table(name, number), published(name)
    for row, ours in rows.items():
        printed = numbers_of(labels.get(row, row), lines)
        there = [column for column in columns if column < len(printed)]  # some lack deviations
        assert ours[: len(there)] == [printed[column] for column in there], row
        assert set(ours[len(there) :]) <= {"-"}, row
    assert rows


@pytest.mark.parametrize("name", ["dman/cnn_dailymail", "dman/gigaword"])
def test_the_mean_of_rouge_is_the_papers(name):
    """R-avg is the mean of the other three; the paper cuts off everything below 0.01."""
    assert RECIPES[name].settings.metrics == ("rouge1", "rouge2", "rougeL", "average")
    for ours in published(name).values():
        *parts, mean = map(Decimal, ours)
        assert (sum(parts) / len(parts)).quantize(Decimal("0.01"), ROUND_DOWN) == mean


@needs_papers
@pytest.mark.parametrize("name", UNLABELED)
def test_other_numbers_are_in_the_papers_text(name):
    printed = set(NUMBER.findall(" ".join(lines_of(RECIPES[name].paper))))
    assert set(sum(published(name).values(), [])) - {"-"} <= printed


def test_every_table_with_numbers_is_checked():
    assert {name for name in RECIPES if published(name)} == {*LINES, *UNLABELED}
