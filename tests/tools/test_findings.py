"""Findings: the mechanisms' differences from plain attention in measured results."""

import json
import re

import pytest

from tools.pages import findings
from tools.pages.tables import Results

FAMILY = "All classifiers, small models"


@pytest.fixture
def results_of(tmp_path):
    """``results_of(row, row)``: the rows as measured results."""

    def results_of(*rows):
        for number, row in enumerate(rows):
            (tmp_path / f"{number}.json").write_text(json.dumps(row))
        return Results(tmp_path, tmp_path)

    return results_of


def unpadded(text):
    return re.sub(" +", " ", re.sub(":?-{3,}:?", "-", text))


def row(name, *scores, data="trec", metric="accuracy", **more):
    return {
        **{"table": f"{FAMILY}: {data}", "row": name, "paper": {metric: None}},
        **{"scores": {metric: list(scores)}, "seeds": list(range(len(scores)))},
        **{"metric": "test set", "data": data, "hardware": "CPU", "versions": {}},
        **more,
    }


@pytest.mark.parametrize(
    "metric, scores, verdict",
    [
        ("accuracy", (95, 95.1, 95.2), "better"),
        ("accuracy", (85, 85.1, 85.2), "worse"),
        ("accuracy", (89, 91, 90.5), "undecided"),
        ("rmse", (95, 95.1, 95.2), "worse"),
        ("rmse", (85, 85.1, 85.2), "better"),
    ],
)
def test_a_difference_has_a_verdict(results_of, metric, scores, verdict):
    rows = row("transformer", 90, 90.1, 90.2, metric=metric), row("mpsan", *scores, metric=metric)
    (finding,) = findings.find(results_of(*({**one, "table": "Own: trec"} for one in rows)))
    assert (finding.mechanism, finding.data, finding.verdict) == ("MPSAN", "trec", verdict)
    assert finding.number == "3 runs"
    assert finding.size.startswith("**") == (verdict != "undecided")


@pytest.mark.parametrize(
    "score, size", [(95, "+5.00"), (89.999, "0.00"), (90.001, "0.00"), (89, "-1.00")]
)
def test_single_runs_are_not_tested(results_of, score, size):
    (finding,) = findings.find(results_of(row("transformer", 90), row("dman", score)))
    assert (finding.verdict, finding.number) == ("not tested", "1 run")
    assert finding.size == f"{size} (not tested)"


def test_incomparable_rows_are_left_out(results_of):
    """Other data, a baseline that was not measured, or none that is plain attention."""
    rows = [
        row("transformer", 90, 91),
        {**row("mpsan", 95, 96), "data": "trec, half of it"},
        row("bilstm", 99, 99.5),
        row("mpsan", 80, 81, data="sick", metric="pearson"),
        {**row("dman", 80, 81), "table": "Own: a"},
        {**row("other", 80, 81), "table": "Own: a"},
    ]
    assert findings.find(results_of(*rows)) == []


def test_the_number_of_folds_is_shown(results_of):
    compared = {
        **{"with": "transformer", "sentences": 3775, "runs": [1, 1], "folds": 2},
        "tests": "the same sentences",
        "metrics": {"accuracy": {"difference": 4.009, "interval": [1, 7], "p": 0.01}},
    }
    rows = [
        row("transformer", 80, 82, data="cr", seeds=[1], folds=[0, 1]),
        row("cspan", 84, 86, data="cr", seeds=[1], folds=[0, 1], compared=compared),
    ]
    (finding,) = findings.find(results_of(*rows))
    assert finding.number == "3,775 sentences, 1 run of 2 folds"
    assert finding.size == "**+4.01** (p = 0.010)"


def test_blocks_of_the_page(results_of):
    """Peers have a block; a model may have two names in two tables."""
    results = results_of(
        row("transformer", 90, 90.1, 90.2),
        row("mtsa", 95, 95.1, 95.2),
        row("da_transformer", 89, 91, 90.5),
        row("bilstm", 91, 91, 91),
        row("transformer", 50, data="sst2"),
        row("da_transformer", 49, data="sst2"),
        {**row("Multi-head", 50), "table": "Roles: ewt"},
        {**row("Bi-LSTM", 53), "table": "Roles: ewt"},
    )
    assert findings.in_short(results).splitlines() == [
        "- **MTSA**: better than plain attention on trec +5.00.",
        "- **DA**: not significant on trec; not tested on sst2.",
        "",
        "1 of 2 tested differences are significant (p < 0.05); without any true difference about "
        "0.1 would be, and up to twice as many with three runs.",
    ]
    assert unpadded(findings.beside_plain_attention(results)).splitlines() == [
        f"| {FAMILY} | plain attention | MTSA | DA | n |",
        "|-|-|-|-|-|",
        "| sst2, accuracy | 50.00 | | -1.00 (not tested) | 1 run |",
        "| trec, accuracy | 90.10 ± 0.10 | **+5.00** (p < 0.001) | +0.07 (p = 0.92) | 3 runs |",
    ]
    peers = unpadded(findings.PLACES["findings of the peers"](results)).splitlines()
    assert peers[2] == "| ewt, accuracy | 50.00 | +3.00 (not tested) | 1 run |"
    assert peers[6].startswith("| trec, accuracy | 90.10 ± 0.10 | **+0.90**")
    claims = unpadded(findings.claims(results)).splitlines()
    assert "| MTSA, Table 5 | trec, accuracy | +1.90 | **+5.00** (p < 0.001) |" in claims
    assert "| DA-Transformer, Table 4 | sst2, accuracy | +0.82 | -1.00 (not tested) |" in claims
    assert "| MPSAN, Table 6 | trec, accuracy | +1.40 | not run |" in claims


@pytest.mark.parametrize("count", [5, 6])
def test_means_are_tested_over_data_sets(results_of, count):
    """Wilcoxon's exact p is 2 of 64 if all gain, 54 of 64 with + of ranks 2, 4, 6."""
    rows = [
        row(name, score, data=f"set {number}")
        for number in range(count)
        for name, score in (
            ("transformer", 50),
            ("mpsan", 51 + number / 2),
            ("mtsa", 50.1 + number if number % 2 else 49 - number),
            *([("dman", 60)] if number else []),
        )
    ]
    rows += [row(name, 0.5, data="sick", metric="pearson") for name in ("transformer", "mpsan")]
    *_, last = unpadded(findings.beside_plain_attention(results_of(*rows))).splitlines()
    means = "| mean accuracy | | **+2.25** (p = 0.031) | +0.05 (p = 0.84) | | 6 data sets |"
    assert last == means if count == 6 else last.startswith("| sick, pearson |")


def test_different_verdicts_on_the_same_data_name_the_models(results_of):
    tables = ("Side by side, small: trec", 90), ("Side by side, large: trec", 95)
    rows = [
        {**one, "table": table}
        for table, score in tables
        for one in (row("transformer", 90, 90.1, 90.2), row("mpsan", score, score, score + 0.3))
    ]
    short = findings.in_short(results_of(*rows)).splitlines()[0]
    better = "- **MPSAN**: better than plain attention on trec"
    assert short == f"{better} (large) +5.00; not significant on trec (small)."
    for one in rows:
        if one["row"] == "mpsan":
            one["scores"] = {"accuracy": [95, 95.2, 95.1]}
    assert findings.in_short(results_of(*rows)).splitlines()[0] == f"{better} +5.00."


def test_models_of_two_tables_count_once(results_of):
    rows = [row("transformer", 90, 91), row("dman", 95, 96)]
    others = [{**one, "table": "Masks: trec"} for one in rows]
    assert len(findings.find(results_of(*rows, *others))) == 1
    others[1]["scores"] = {"accuracy": [95, 97]}
    assert len(findings.find(results_of(*rows, *others))) == 2
