"""Rows of a table beside its baseline row, by hand and against SciPy."""

import json

import pytest
from scipy.stats import ttest_ind

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.comparisons import (
    WELCH,
    add_comparisons,
    baseline_of,
    by_runs,
    explained,
    p_value,
    read_kept,
)
from fairseq_posattn.scoring.sentence_statistics import Kept


def row(name, *scores, **more):
    seeds = list(range(1, len(scores) + 1))
    kept = {"rouge1": list(scores)}
    return {"row": name, "paper": {"rouge1": None}, "scores": kept, "seeds": seeds, **more}


def kept(*runs, test_set="a", names=("rouge1",)):
    """Of each run the scores of its sentences, the same for all names."""
    return [
        Kept(test_set, {name: [[float(score), 1.0] for score in run] for name in names})
        for run in runs
    ]


def test_the_baseline_is_plain_attention_or_the_first_row():
    assert baseline_of(["DMAN", "Multi-head", "Transformer"]) == "Transformer"
    assert baseline_of(["mpsan", "transformer"]) == "transformer"
    assert baseline_of(["MTSA", "Multi-head"]) == "Multi-head"
    assert baseline_of(["6", "4"]) == "6"


def test_runs_alone_are_tested_as_by_welch():
    ours, theirs = (37.2, 37.9, 38.3), (36.1, 37.3)
    found = by_runs(row("DMAN", *ours), row("Transformer", *theirs))
    one = found["metrics"]["rouge1"]
    assert (found["runs"], found["tests"]) == ([3, 2], WELCH)
    assert one["difference"] == pytest.approx(37.8 - 36.7)
    assert one["p"] == pytest.approx(ttest_ind(ours, theirs, equal_var=False).pvalue, abs=1e-4)
    # Twice as far as the interval reaches is zero where p is 0.05: here, it is within.
    assert one["interval"][0] < 0 < one["interval"][1] and one["p"] > 0.05


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (row("DMAN", 1, 2), row("Transformer", 1)),
        (row("DMAN", 1, 2, folds=[0]), row("Transformer", 1, 3)),
        (row("DMAN", 2, 2), row("Transformer", 1, 1)),
        (row("DMAN", 1, 2, paper={"epoch_s": 1}), row("Transformer", 1, 3)),
        (row("DMAN", 1, 2), {**row("Transformer"), "scores": {}}),
    ],
    ids=["one run", "folds", "no spread", "not a score", "not run"],
)
def test_what_is_not_tested(one, other):
    assert by_runs(one, other) is None


def test_sentences_and_runs_are_tested_where_they_were_kept():
    rows = [row("Transformer", 10, 12), row("DMAN", 20, 22), row("LEAD-3", 50)]
    statistics = [kept([10, 10], [12, 12]), kept([20, 20], [22, 22]), kept([50, 50])]
    add_comparisons(rows, statistics)
    baseline, ours, lead = rows
    # One of two runs is drawn: 10 or 12, 20 or 22, and so 8, 10 or 12 between them.
    assert (baseline["intervals"], ours["intervals"]) == (
        {"rouge1": [10, 12]},
        {"rouge1": [20, 22]},
    )
    assert "compared" not in baseline
    compared = ours["compared"]
    assert (compared["with"], compared["sentences"], compared["runs"]) == ("Transformer", 2, [2, 2])
    assert compared["tests"].startswith("sentences and runs, ")
    found = compared["metrics"]["rouge1"]
    assert (found["difference"], found["interval"], found["p"]) == (10, [8, 12], 0.001)
    assert not {"intervals", "compared"} & lead.keys()
    assert explained(compared).startswith("from Transformer: n = 2 sentences, 2 runs; tested over ")


def test_runs_of_a_row_on_different_test_sets_are_no_group():
    rows = [row("Transformer", 10, 12), row("DMAN", 20, 22)]
    mixed = [*kept([20, 20]), *kept([22], test_set="b")]
    add_comparisons(rows, [kept([10, 10], [12, 12]), mixed])
    assert rows[1]["compared"]["tests"] == WELCH and "intervals" not in rows[1]


def test_the_average_of_three_rouge_is_of_each_summary():
    rows = [row("Transformer", 10, 12), row("DMAN", 20, 22)]
    for one in rows:
        one["scores"]["average"], one["paper"]["average"] = one["scores"]["rouge1"], None
    names = ("rouge1", "rouge2", "rougeL")
    add_comparisons(rows, [kept([10], [12], names=names), kept([20], [22], names=names)])
    assert rows[1]["compared"]["metrics"]["average"] == rows[1]["compared"]["metrics"]["rouge1"]


def test_a_row_has_kept_what_all_its_runs_have(tmp_path):
    folders = [tmp_path / "seed1", tmp_path / "seed2"]
    runs = [[folder] for folder in folders]
    for folder in folders:
        folder.mkdir()
    content = {"test set": "a", "metrics": {"bleu": [[1, 2], [3, 4]]}}
    (folders[0] / "statistics.json").write_text(json.dumps(content))
    assert read_kept(runs) == [] == read_kept([])
    (folders[1] / "statistics.json").write_text(json.dumps(content))
    assert [one.metrics["bleu"] for one in read_kept(runs)] == [[[1, 2], [3, 4]]] * 2
    (folders[1] / "statistics.json").write_text("{}")
    with pytest.raises(UsageError, match="seed2/statistics.json: not a file of --statistics"):
        read_kept(runs)


def test_p_is_printed_as_far_as_it_tells():
    assert list(map(p_value, (0.1349, 0.0312, 0.0004))) == ["p = 0.13", "p = 0.031", "p < 0.001"]


def test_classifiers_are_compared_by_their_predictions(tmp_path):
    """Each of two runs has three of four right, of which macro-F1 is counted by hand."""
    folders = [tmp_path / "seed1", tmp_path / "seed2"]
    for folder in folders:
        folder.mkdir()
        (folder / "predictions-test.txt").write_text("a\ta\na\ta\nb\tb\nb\ta\n")
    runs = read_kept([[folder] for folder in folders])
    scores = {"accuracy": [75.0, 75.0], "macro_f1": [73.33, 73.33]}
    rows = [
        {"row": name, "paper": dict.fromkeys(scores), "scores": scores, "seeds": [1, 2]}
        for name in ("Transformer", "DMAN")
    ]
    add_comparisons(rows, [runs, runs])
    found = rows[1]["compared"]
    assert found["metrics"].keys() == scores.keys()
    assert all(one["difference"] == 0 and one["p"] == 1 for one in found["metrics"].values())
    assert (found["sentences"], found["runs"]) == (4, [2, 2])
    low, high = rows[0]["intervals"]["macro_f1"]
    assert low < 73.33 < high == 100  # F1 of a is 4/5, of b 2/3: their mean is 0.7333
    (folders[1] / "predictions-test.txt").write_text("a\n")
    with pytest.raises(UsageError, match="seed2/predictions-test.txt is no file of predictions"):
        read_kept([[folder] for folder in folders])


def folds_of(folder, *folds):
    """The folders of folds whose examples are all of class a, with these predictions."""
    paths = [folder / f"fold{place}-seed1" for place in range(len(folds))]
    for path, fold in zip(paths, folds, strict=True):
        path.mkdir(parents=True)
        (path / "predictions-test.txt").write_text("".join(f"{label}\ta\n" for label in fold))
    return [paths]


def crossed(name, *accuracy):
    scores = {"accuracy": list(accuracy)}
    return {
        **{"row": name, "paper": {"accuracy": None}, "scores": scores},
        **{"seeds": [1], "folds": list(range(len(accuracy)))},
    }


def test_folds_are_compared_by_their_test_sets_together(tmp_path):
    """Of 21 examples the baseline has 11 right, the other 19: all of these, and 8 more."""
    rows = [crossed("transformer", 60.0, 100 * 5 / 11), crossed("da", 100.0, 100 * 9 / 11)]
    kept = [
        read_kept(folds_of(tmp_path / "transformer", "aaaaaabbbb", "aaaaabbbbbb")),
        read_kept(folds_of(tmp_path / "da", "aaaaaaaaaa", "aaaaaaaaabb")),
    ]
    add_comparisons(rows, kept)
    compared = rows[1]["compared"]
    assert (compared["sentences"], compared["runs"], compared["folds"]) == (21, [1, 1], 2)
    found = compared["metrics"]["accuracy"]
    assert found["difference"] == pytest.approx(100 * 8 / 21, abs=1e-4)
    assert found["p"] == pytest.approx(2 / 2**8, abs=1e-4)  # of eight that only one has right
    assert found["p_randomisation"] < 0.05 and found["interval"][0] > 0
    assert explained(compared) == (
        "from transformer: n = 21 sentences, 1 run of 2 folds; tested over the same sentences, "
        "McNemar's exact test"
    )
    low, high = rows[1]["intervals"]["accuracy"]
    assert low < 100 * 19 / 21 < high


def test_other_folds_are_not_compared(tmp_path):
    """A model that lacks a fold has another test set, and folds alone are no independent runs."""
    rows = [crossed("transformer", 50.0, 50.0), crossed("da", 50.0)]
    kept = [
        read_kept(folds_of(tmp_path / "transformer", "aa", "aa")),
        read_kept(folds_of(tmp_path / "da", "bb")),
    ]
    add_comparisons(rows, kept)
    assert "compared" not in rows[1] and "intervals" not in rows[1]


def test_metrics_without_statistics_are_tested_over_runs():
    rows = [row("Transformer", 10, 12), row("DMAN", 20, 22)]
    for one in rows:
        one["scores"]["rouge2"], one["paper"]["rouge2"] = [5, 6], None
    add_comparisons(rows, [kept([10], [12]), kept([20], [22])])
    assert rows[1]["compared"]["tests"] == WELCH
    assert rows[1]["compared"]["metrics"].keys() == {"rouge1", "rouge2"}


def test_of_one_run_of_folds_only_the_accuracy_has_an_exact_test(tmp_path):
    rows = [crossed("transformer", 50.0, 50.0), crossed("da", 100.0, 100.0)]
    for one in rows:
        one["scores"]["macro_f1"], one["paper"]["macro_f1"] = [50.0, 50.0], None
    kept = [read_kept(folds_of(tmp_path / name, "aaa", "aa")) for name in ("transformer", "da")]
    assert kept[0][0].metrics.keys() == {"accuracy", "macro_f1"}
    add_comparisons(rows, kept)
    assert "compared" not in rows[1]
