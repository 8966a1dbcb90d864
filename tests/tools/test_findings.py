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
    (finding,) = findings.find(results_of(*({**entry, "table": "Own: trec"} for entry in rows)))
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


def compared(sentences, **measured):
    """Return a comparison with plain attention, of the accuracy."""
    return {
        **{"with": "transformer", "sentences": sentences, "runs": [1, 1], "tests": "sentences"},
        "metrics": {"accuracy": {"interval": [1, 7], "p": 0.01, **measured}},
    }


def test_the_number_of_folds_is_shown(results_of):
    folds = {"data": "cr", "seeds": [1], "folds": [0, 1]}
    tested = compared(3775, difference=4.009) | {"folds": 2}
    rows = row("transformer", 80, 82, **folds), row("cspan", 84, 86, **folds, compared=tested)
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
        "1 of 2 tested differences have p < 0.05; without any true difference about 0.1 would, and "
        "up to twice as many with three runs. Significant when corrected for the number of tests: "
        "1 by Benjamini and Hochberg's method, which this page uses, 1 by Holm's (MTSA on trec). "
        "The bootstrap has no p below 0.001: more than 50 tests cannot pass Holm's by it.",
    ]
    assert unpadded(findings.beside_plain_attention(results)).splitlines() == [
        f"| {FAMILY} | plain attention | MTSA | DA | n |",
        "|-|-|-|-|-|",
        "| sst2, accuracy | 50.00 | | -1.00 (not tested) | 1 run |",
        "| trec, accuracy | 90.10 ± 0.10 | **+5.00** (p < 0.001) | +0.07 (p = 0.92) | 3 runs |",
    ]
    peers = unpadded(findings.BLOCKS["findings of the peers"](results)).splitlines()
    assert peers[2] == "| ewt, accuracy | 50.00 | +3.00 (not tested) | 1 run |"
    assert peers[6].startswith("| trec, accuracy | 90.10 ± 0.10 | **+0.90**")


def test_differences_by_length_are_of_one_table(results_of):
    table, metrics = "Beyond: Multi30k", ("bleu 0 to 9", "bleu 10 to 19")

    def made(name, *scores):
        each = {"scores": dict(zip(metrics, scores, strict=True)), "paper": dict.fromkeys(metrics)}
        return {**row(name, 1, 2, 3), "table": table, **each}

    plain = made("Transformer", [30, 30.1, 30.2], [10, 10.1, 10.2])
    results = results_of(plain, made("RoPE", [30, 30.2, 30.3], [20, 20.1, 20.2]))
    line = r"- \*\*RoPE\*\*: \+0.07 \(.*\) at 0 to 9 words, \*\*\+10.00\*\*.*words\."
    assert re.fullmatch(line, findings.by_length(results))
    assert findings.find(results) == []


def test_verdicts_are_corrected_for_the_number_of_tests(results_of):
    """The worse of two p below 0.05 is above it when corrected for two or more tests."""
    plain = row("transformer", 90, 90.1, 90.2)
    close = row("mpsan", 90.24, 90.34, 90.44)
    (alone,) = findings.find(results_of(plain, close))
    assert 0.05 / 2 < alone.p < 0.05 and alone.rate == alone.holm == alone.p
    assert alone.verdict == "better" and alone.size.startswith("**+0.24**")
    others = [row("mtsa", 95, 95.1, 95.2), row("dman", 89, 91, 90.5), row("cspan", 89, 91, 90.6)]
    results = results_of(plain, close, *others)
    by_name = {finding.mechanism: finding for finding in findings.find(results)}
    verdicts = ["uncorrected", "better", "undecided", "undecided"]
    assert [finding.verdict for finding in by_name.values()] == verdicts
    assert by_name["MPSAN"].size.startswith("+0.24 (p = 0.0")
    first, *_, last = findings.in_short(results).splitlines()
    assert first == "- **MPSAN**: significant only if not corrected on trec +0.24."
    assert last.startswith("2 of 4 tested differences have p < 0.05") and ": 1 by Benjam" in last


def test_claims_have_the_papers_own_baselines(results_of):
    tested = compared(500, difference=-0.02, p=0.9)
    results = results_of(
        row("transformer", 95, 95.1, 95.2),
        row("mtsa", 95, 95.1, 95.15, compared=tested),
        row("multi_head", 90, 90.1, 90.2),
        row("transformer_xl", 50, data="snli"),
        row("da_transformer", 49, data="snli"),
        row("multi_head", 52, data="snli"),
        row("mtsa", 51, data="snli"),
    )
    claims = unpadded(findings.claims(results)).splitlines()
    for line in (
        "MTSA, Table 5 | trec, accuracy | MTSA - Multi-head | +1.90 | **+4.98** (p < 0.001)",
        "MTSA, Table 1 | snli, accuracy | MTSA - Multi-head | +2.10 | -1.00 (not tested)",
        "MTSA, Table 2 | snli, accuracy | Transfer + MTSA - Transfer + Multi-Head | +0.30 "
        "| not run",
        "DA-Transformer, Table 4 | snli, accuracy | DA-Transformer - Transformer | +2.73 | not run",
        "DA-Transformer, Table 4 | snli, accuracy | DA-Transformer - Transformer-XL | +0.99 "
        "| -1.00 (not tested)",
        "MPSAN, Table 6 | trec, accuracy | MPSAN - Multi-head | +1.40 | not run",
    ):
        assert f"| {line} |" in claims
    assert sum("MTSA, Table 2" in line for line in claims) == 2


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
    means = "| mean accuracy | | +2.25 (p = 0.031) | +0.05 (p = 0.84) | | 6 data sets |"
    assert last == means if count == 6 else last.startswith("| sick, pearson |")


def test_different_verdicts_or_gains_on_the_same_data_name_the_models(results_of):
    tables = ("Side by side, small: trec", 90), ("Side by side, large: trec", 95)
    rows = [
        {**entry, "table": table}
        for table, score in tables
        for entry in (row("transformer", 90, 90.1, 90.2), row("mpsan", score, score, score + 0.3))
    ]
    short = findings.in_short(results_of(*rows)).splitlines()[0]
    better = "- **MPSAN**: better than plain attention on trec"
    assert short == f"{better} (large) +5.00; not significant on trec (small)."
    for entry in rows:
        if entry["row"] == "mpsan":
            entry["scores"] = {"accuracy": [95, 95.2, 95.1]}
    assert findings.in_short(results_of(*rows)).splitlines()[0] == f"{better} +5.00."
    rows[-1]["scores"] = {"accuracy": [96, 96.2, 96.1]}
    gains = f"{better} (large) +6.00, trec (small) +5.00."
    assert findings.in_short(results_of(*rows)).splitlines()[0] == gains


def test_models_of_two_tables_count_once(results_of):
    rows = [row("transformer", 90, 91), row("dman", 95, 96)]
    others = [{**entry, "table": "Masks: trec"} for entry in rows]
    for scores, count in (([95, 96], 1), ([95, 97], 2)):
        others[1]["scores"] = {"accuracy": scores}
        assert len(findings.find(results_of(*rows, *others))) == count
