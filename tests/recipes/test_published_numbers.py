"""The papers' numbers are those that the papers print, in their rows and their columns.

Most of the papers' tables are lines of text, a row each, which are read here as a table is read:
the row by its label, the columns by their order. Those of one paper were taken apart by column.
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

# Of each table that is lines of text: its number; where a row's numbers stand on the paper's line,
# for the columns as the recipe has them; and the labels that are not the names of our rows.
OURS = {"DMAN (released)": "Ours"}
ROLES = (6, 4, 5, 7, 10, 8, 9, 11, 2, 0, 1, 3)  # P R F1 Comp. of development, WSJ and Brown
LINES = {
    "da_transformer/table3_documents": (3, range(8), {}),
    "da_transformer/table4_sst_snli": (4, range(8), {}),
    "da_transformer/table5_mind": (5, range(8), {}),
    "dman/cnn_dailymail": (2, (0, 1, 2, 3), OURS),
    "dman/gigaword": (2, (4, 5, 6, 7), OURS),
    "dman/iwslt14": (1, (0,), OURS),
    "dman/table3_sublayers": (
        3,
        (0,),
        {
            "C#1 (released)": "C#1 FFN→SAN→FFN",
            "C#2 (released)": "C#2 SAN→SAN→FFN",
            "C#3 (released)": "C#3 DMAN→DMAN→FFN",
            "C#4 (released)": "C#4 SAN→DMAN→FFN",
            "C#5 (released)": "C#5 DMAN→SAN→FFN",
        },
    ),
    "dman/table4_static_masks": (
        4,
        (0,),
        {f"{row} (released)": row for row in ("SMAN1", "SMAN2", "DMAN")},
    ),
    "dman/table5_locality": (5, (0, 1, 2), {}),
    "dman/wmt14_base": (1, (2,), OURS),
    "dman/wmt14_big": (1, (4,), OURS),
    "mpsan/table1_sst": (
        1,
        (2, 0, 1),
        {
            "Multi-head": "Multi-head-SANh",
            "CNN": "CNN-non-staticd",
            "Bi-LSTM": "Bi-LSTMb",
            "Bi-LSTM-SAN": "Bi-LSTM-SANh",
            "DiSAN": "DiSANh",
            "Bi-BloSAN": "Bi-BloSANi",
            "MPSAN": "Our MPSAN",
        },
    ),
    "mpsan/table3_fusion": (3, (2, 0, 1), {}),
    "mpsan/table4_dimensions": (4, (2, 0, 1), {}),
    "mpsan/table5_components": (
        5,
        (2, 0, 1),
        {f"w/o {part}": f"MPSAN w/o {part}" for part in ("fusion", "position", "attention")},
    ),
    "mpsan/table6_sentences": (6, range(8), {}),
    "mpsan/table7_sick": (
        7,
        (0, 1, 2),
        {
            "Bi-LSTM": "Bi-LSTMa",
            "Multi-CNN": "Multi-CNNb",
            "Hrchy-CNN": "Hrchy-CNNc",
            "Multi-head": "Multi-headd",
            "DiSAN": "DISANe",
            "Bi-BloSAN": "Bi-BloSANf",
        },
    ),
    "mtsa/table1_snli": (1, (5, 4, 0, 1, 2, 3), {}),
    "mtsa/table2_multinli": (
        2,
        (1, 0, 3, 2),  # dev, test, matched, mismatched
        {"Multi-head": "Transfer + Multi-Head", "MTSA": "Transfer + MTSA"},
    ),
    "mtsa/table2_transfer": (2, (1, 0, 3, 2), {}),
    "mtsa/table3_ablations": (
        3,
        (2, 0, 1),
        {
            f"w/o {part}": f"MTSA w/o {part}"
            for part in ("fw&bw masks", "token2token", "source2token", "proposed modules")
        },
    ),
    # After the hours of training; EWT has no numbers.
    "mtsa/table4_roles": (4, [1 + place for place in ROLES], {"Multi-head": "Multi-head∗"}),
    "mtsa/table5_sentences": (5, range(10), {"cBoW": "cBoWa"}),
}
# The other way round: a recipe's rows are columns of the paper's table, its numbers one line.
COLUMNS = {"mtsa/table6_setup1": (6, "Setup1"), "mtsa/table6_setup2": (6, "Setup2")}
# Rows of which the paper's text has lost the labels: its numbers one below the other, or as the
# ends of lines.
ENDS = {"mpsan/table2_masks": 2}
# Of the paper whose tables were taken apart: what stands before a column of accuracies.
APART = {
    "cspan/table3_components": "1 1 1 2 2 2 3 3 3 Accuracy",  # the layers are Table 4's
    "cspan/table5_fusion": "Embedding Embedding + Position Embedding + Relative-Position"
    " Embedding + Bi-LSTM Embedding // Bi-LSTM Accuracy",
}
DOCUMENT_METHODS = [
    ["LSTM", "CNN-char", "CNN-word"],
    ["Deep CNN", "FastText", "HAN", "SASEM", "DiSAN", "LEAM", "SWEM", "HLAN"],
    ["CSPAN (base)", "CSPAN (big)"],
]


def published(recipe):
    """By the row's name: its numbers, deviations behind them."""
    locality = getattr(recipe, "locality", None)
    rows = locality.rows if locality else recipe.rows
    return {row.name: re.split("[ ±]", row.paper) for row in rows if row.paper.strip("- ")}


def lines_of(paper):
    text = (PAPERS / f"{paper}.txt").read_text(encoding="utf-8")
    return [MARKUP.sub("", line) for line in text.splitlines()]


def unbroken(paper):
    return " ".join(" ".join(lines_of(paper)).split())


def table(paper, number):
    """The lines above the caption, after that of the table before."""
    lines = lines_of(paper)
    captions = {int(found[1]): i for i, line in enumerate(lines) if (found := CAPTION.match(line))}
    end = captions[number]
    start = max([end - LONGEST_TABLE, 0, *(i + 1 for i in captions.values() if i < end)])
    return lines[start:end]


def numbers_of(label, lines):
    """Those on the one line that has nothing but a label before them, and references."""
    begins = re.compile(rf"{re.escape(label)}(?=\s+[\d-])")
    plain = (REFERENCE.sub("", line) for line in lines)
    (numbers,) = [NUMBER.findall(line, len(label)) for line in plain if begins.match(line)]
    return numbers


@needs_papers
@pytest.mark.parametrize("name", LINES)
def test_a_row_is_the_papers_line(name):
    number, columns, labels = LINES[name]
    lines = table(RECIPES[name].paper, number)
    rows = published(RECIPES[name])
    for row, ours in rows.items():
        printed = numbers_of(labels.get(row, row), lines)
        there = [column for column in columns if column < len(printed)]  # some lack deviations
        assert ours[: len(there)] == [printed[column] for column in there], row
        assert set(ours[len(there) :]) <= {"-"}, row
    assert rows


@pytest.mark.parametrize("name", ["dman/cnn_dailymail", "dman/gigaword"])
def test_the_mean_of_rouge_is_the_papers(name):
    """R-avg is the mean of the other three, of which the paper cuts off what is below 0.01."""
    assert RECIPES[name].settings.metrics == ("rouge1", "rouge2", "rougeL", "average")
    for ours in published(RECIPES[name]).values():
        *parts, mean = map(Decimal, ours)
        assert (sum(parts) / len(parts)).quantize(Decimal("0.01"), ROUND_DOWN) == mean


@needs_papers
@pytest.mark.parametrize("name", COLUMNS)
def test_a_recipe_is_the_papers_line(name):
    number, label = COLUMNS[name]
    lines = table(RECIPES[name].paper, number)
    assert "Model Multi-head (Transformer) MTSA" in lines
    ours = published(RECIPES[name])
    assert list(ours) == ["Transformer", "MTSA"]
    assert sum(ours.values(), []) == numbers_of(label, lines)


@needs_papers
@pytest.mark.parametrize("name", ENDS)
def test_rows_are_in_the_papers_order(name):
    lines = table(RECIPES[name].paper, ENDS[name])
    ends = [found[0] for line in lines if (found := re.findall(r"\d\d\.\d+$", line))]
    assert sum(published(RECIPES[name]).values(), []) == ends


@needs_papers
@pytest.mark.parametrize("name", APART)
def test_a_column_is_the_papers(name):
    ours = sum(published(RECIPES[name]).values(), [])
    assert f"{APART[name]} {' '.join(ours)} " in unbroken(RECIPES[name].paper)


@needs_papers
def test_sizes_are_the_papers():
    """CSPAN's Table 4: four columns, the first of them apart from the others."""
    rows = published(RECIPES["cspan/table4_sizes"])
    layers, queries = zip(*(re.findall(r"\d+", name) for name in rows), strict=True)
    accuracies, megabytes = zip(*rows.values(), strict=True)
    text = unbroken("cspan")
    assert f"Layers (BiLSTM) {' '.join(layers)} " in text
    columns = " ".join([*queries, *megabytes, *accuracies])
    assert f"Query Memory(MB) Accuracy {columns} Table 4: " in text


@needs_papers
def test_methods_of_documents_are_the_papers():
    """CSPAN's Table 2: columns in three parts, of which one lacks a number of SASEM."""
    recipe = RECIPES["cspan/table2_documents"]
    lines = [line for line in lines_of("cspan") if line.strip()]
    place = lines.index("Methods")
    assert lines[place + 1 : place + 5] == ["AGNews", "Yelp P.", "Yelp F.", "Yahoo"]
    parts = {}
    for methods in DOCUMENT_METHODS:
        place = next(i for i in range(len(lines)) if lines[i : i + len(methods)] == methods)
        columns, start = [], place + len(methods)
        for dataset in ("AGNews", "Yelp P.", "Yelp F.", "Yahoo"):
            lacking = "SASEM" if dataset == "Yahoo" else None
            having = [method for method in methods if method != lacking]
            columns.append(dict(zip(having, lines[start:], strict=False)))
            start += len(having)
        for method in methods:
            parts[method] = [column.get(method, "-") for column in columns]
    assert published(recipe).items() <= parts.items()
    assert [dataset.name for dataset in recipe.datasets] == [
        "ag_news",
        "yelp_polarity",
        "yelp_full",
        "yahoo_answers",
    ]


def test_every_table_with_numbers_is_looked_up():
    known = {*LINES, *COLUMNS, *ENDS, *APART, "cspan/table2_documents", "cspan/table4_sizes"}
    assert {name for name, recipe in RECIPES.items() if published(recipe)} == known
