"""Rows of a table beside its baseline row, by hand and against SciPy."""

import json
import math

import pytest
from scipy.stats import ttest_ind

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.comparisons import (
    WELCH,
    add_comparisons,
    baseline_of,
    by_runs,
    describe_counts,
    p_value,
    read_kept,
)
from fairseq_posattn.recipes.tables import counted_runs, footnote, render
from fairseq_posattn.scoring.labels import macro_f1
from fairseq_posattn.scoring.result import Kept


def row(name, *scores, **more):
    seeds = list(range(1, len(scores) + 1))
    kept = {"rouge1": list(scores)}
    return {"row": name, "paper": {"rouge1": None}, "scores": kept, "seeds": seeds, **more}


def kept(*runs, test_set="a", names=("rouge1",)):
    """Return statistics of runs from the scores of their sentences, the same for all names."""
    scores = [[[float(score), 1.0] for score in run] for run in runs]
    return [Kept(test_set, dict.fromkeys(names, run)) for run in scores]


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (0.0009, "p < 0.001"),
        (0.000999, "p = 0.001"),  # the smallest of the bootstrap
        (0.001, "p = 0.001"),
        (0.0494, "p = 0.049"),
        (0.0496, "p = 0.0496"),  # significant
        (0.04995, "p = 0.04995"),  # 50 of 1,001: significant
        (0.05, "p = 0.0500"),
        (0.1, "p = 0.10"),
    ],
)
def test_a_p_is_printed_on_its_side_of_the_level(p, text):
    assert p_value(p) == text


def test_the_baseline_is_plain_attention_or_the_first_row():
    assert baseline_of(["DMAN", "Multi-head", "Transformer"]) == "Transformer"
    assert baseline_of(["mpsan", "transformer"]) == "transformer"
    assert baseline_of(["MTSA", "Multi-head"]) == "Multi-head"
    assert baseline_of(["6", "4"]) == "6"


def test_runs_alone_are_tested_as_by_welch():
    ours, theirs = (37.2, 37.9, 38.3), (36.1, 37.3)
    result = by_runs(row("DMAN", *ours), row("Transformer", *theirs))
    rouge1 = result["metrics"]["rouge1"]
    assert (result["runs"], result["tests"]) == ([3, 2], WELCH)
    assert rouge1["difference"] == pytest.approx(37.8 - 36.7)
    assert rouge1["p"] == pytest.approx(ttest_ind(ours, theirs, equal_var=False).pvalue, abs=1e-4)
    assert rouge1["interval"][0] < 0 < rouge1["interval"][1] and rouge1["p"] > 0.05


def test_p_is_compared_and_corrected_before_it_is_rounded_to_four_digits():
    shift = 2.2676
    runs = [row("Transformer", 0, 1, 2), row("DMAN", shift, shift + 1, shift + 2)]
    add_comparisons(runs, [[], []])
    (test,) = runs[1]["compared"]["metrics"].values()
    assert round(test["p"], 4) == 0.05 and test["p"] < 0.05 and test["p_holm"] < 0.05


@pytest.mark.filterwarnings("error")
def test_a_side_of_equal_runs_has_no_warning():
    result = by_runs(row("DMAN", 49.0, 49.0), row("Transformer", 55.5, 51.5))
    p = 2 / math.pi * math.atan(1 / 2.25)  # Student's t with one degree of freedom
    assert result["metrics"]["rouge1"]["p"] == pytest.approx(p, abs=1e-4)


def test_a_table_has_all_its_metrics():
    names = ("accuracy", "valid_accuracy")
    result = {"row": "DMAN", "paper": dict.fromkeys(names), "scores": dict.fromkeys(names, [50.0])}
    table = render([{**result, "seeds": [1]}], {})
    assert "accuracy / validation accuracy" in table and "50.00 / 50.00" in table


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (row("DMAN", 1, 2), row("Transformer", 1)),
        (row("DMAN", 1, 2, folds=[0]), row("Transformer", 1, 3)),
        (row("DMAN", 2, 2), row("Transformer", 1, 1)),
        (row("DMAN", 1, 2, paper={"epoch_s": 1}), row("Transformer", 1, 3)),
        (row("DMAN", 1, 2), {**row("Transformer"), "scores": {}}),
    ],
    ids=["one run", "folds", "no spread", "not a score", "not run"],
)
def test_single_runs_folds_and_costs_are_not_tested(ours, theirs):
    assert by_runs(ours, theirs) is None


def test_statistics_of_sentences_and_runs_are_tested():
    rows = [row("Transformer", 10, 12), row("DMAN", 20, 22), row("LEAD-3", 50)]
    statistics = [kept([10, 10], [12, 12]), kept([20, 20], [22, 22]), kept([50, 50])]
    add_comparisons(rows, statistics)
    baseline, dman, lead = rows
    # One of two runs is drawn: 10 or 12, 20 or 22, and so 8, 10 or 12 between them.
    assert baseline["intervals"] == {"rouge1": [10, 12]}
    assert dman["intervals"] == {"rouge1": [20, 22]}
    assert "compared" not in baseline
    compared = dman["compared"]
    assert (compared["with"], compared["sentences"], compared["runs"]) == ("Transformer", 2, [2, 2])
    assert compared["tests"].startswith("sentences and runs, ")
    result = compared["metrics"]["rouge1"]
    assert (result["difference"], result["interval"], result["p"]) == (10, [8, 12], 0.000999)
    assert not {"intervals", "compared"} & lead.keys()
    assert describe_counts(compared) == "2 sentences, 2 runs"


@pytest.mark.parametrize("other", ["valid_rouge1", "train_rouge1"])
def test_scores_of_other_splits_are_not_tested_and_change_no_test(other):
    rows = [row("Transformer", 10, 12), row("DMAN", 20, 22)]
    for each in rows:
        each["scores"][other], each["paper"][other] = [1.0, 2.0], None
    add_comparisons(rows, [kept([10, 10], [12, 12]), kept([20, 20], [22, 22])])
    assert rows[1]["compared"]["tests"].startswith("sentences and runs, ")
    assert rows[1]["compared"]["metrics"].keys() == {"rouge1"}


def test_a_footnote_names_what_a_correction_loses():
    def compared(*ps):
        names = ("rouge1", "rouge2")
        tests = {name: {"difference": 1, "p": p} for name, p in zip(names, ps, strict=False)}
        return {"with": "A", "runs": [2, 2], "tests": WELCH, "metrics": tests}

    rows = [row(name, 1, 2, data="x") for name in "ABC"]

    def corrections(**tests):
        (line,) = [note for note in footnote(rows, tests) if "when corrected" in note] or [""]
        return line

    assert corrections(B=compared(0.001, 0.04), C=compared(0.02, 0.6)) == (
        "Bold, but not significant when corrected for 4 tests: B (ROUGE-2), C (ROUGE-1) by Holm; "
        "B (ROUGE-2) by Benjamini and Hochberg"
    )
    assert corrections(B=compared(0.001), C=compared(0.002)) == (
        "All bold differences stay significant when corrected for 2 tests (Holm)"
    )
    assert corrections(B=compared(0.2), C=compared(0.4)) == corrections(B=compared(0.02)) == ""


def test_runs_on_different_test_sets_are_tested_over_runs():
    rows = [row("Transformer", 10, 12), row("DMAN", 20, 22)]
    mixed = [*kept([20, 20]), *kept([22], test_set="b")]
    add_comparisons(rows, [kept([10, 10], [12, 12]), mixed])
    assert rows[1]["compared"]["tests"] == WELCH and "intervals" not in rows[1]


def test_the_average_of_three_rouge_is_tested_by_summary():
    rows = [row("Transformer", 10, 12), row("DMAN", 20, 22)]
    for entry in rows:
        entry["scores"]["average"], entry["paper"]["average"] = entry["scores"]["rouge1"], None
    names = ("rouge1", "rouge2", "rougeL")
    add_comparisons(rows, [kept([10], [12], names=names), kept([20], [22], names=names)])
    metrics = rows[1]["compared"]["metrics"]
    assert metrics["average"] == metrics["rouge1"]
    # A metric without statistics makes all tests over runs.
    add_comparisons(rows, [kept([10], [12]), kept([20], [22])])
    assert rows[1]["compared"]["tests"] == WELCH
    assert rows[1]["compared"]["metrics"].keys() == {"rouge1", "average"}


def test_statistics_are_read_if_all_runs_have_them(tmp_path):
    folders = [tmp_path / "seed1", tmp_path / "seed2"]
    runs = [[folder] for folder in folders]
    for folder in folders:
        folder.mkdir()
    content = {"test set": "a", "metrics": {"bleu": [[1, 2], [3, 4]]}}
    (folders[0] / "statistics.json").write_text(json.dumps(content))
    assert read_kept(runs) == [] == read_kept([])
    (folders[1] / "statistics.json").write_text(json.dumps(content))
    assert [run.metrics["bleu"] for run in read_kept(runs)] == [[[1, 2], [3, 4]]] * 2
    (folders[1] / "statistics.json").write_text("{}")
    with pytest.raises(UsageError, match="seed2/statistics.json: not a file of --statistics"):
        read_kept(runs)


def predicted(folder, *runs):
    """Write the folds of runs, all of class a, with these predictions; return what is read."""
    folders = []
    for seed, folds in enumerate(runs, 1):
        paths = [folder / f"fold{index}-seed{seed}" for index in range(len(folds))]
        for path, fold in zip(paths, folds, strict=True):
            path.mkdir(parents=True)
            lines = "".join(f"{label}\ta\n" for label in fold)
            (path / "predictions-test.txt").write_text(lines)
        folders.append(paths)
    return read_kept(folders)


def folded(name, *runs, **metrics):
    """Return the row of runs of folds, with the accuracies of :func:`predicted`."""
    accuracy = [
        100 * run[fold].count("a") / len(run[fold]) for fold in range(len(runs[0])) for run in runs
    ]
    scores = {"accuracy": accuracy, **metrics}
    seeds, folds = (list(range(count)) for count in (len(runs), len(runs[0])))
    paper = dict.fromkeys(scores)
    return {"row": name, "paper": paper, "scores": scores, "seeds": seeds, "folds": folds}


def test_the_folds_of_a_seed_are_one_test_set(tmp_path):
    """The baseline has 11 of 21 examples right, the other 19: all of these, and 8 more."""
    runs = {"transformer": ("aaaaaabbbb", "aaaaabbbbbb"), "da": ("a" * 10, "aaaaaaaaabb")}
    rows = [folded(name, run, loss=[0.1, 0.2]) for name, run in runs.items()]  # without sentences
    add_comparisons(rows, [predicted(tmp_path / name, run) for name, run in runs.items()])
    compared = rows[1]["compared"]
    assert (compared["sentences"], compared["runs"], compared["folds"]) == (21, [1, 1], 2)
    (result,) = compared["metrics"].values()
    assert result["difference"] == pytest.approx(100 * 8 / 21, abs=1e-4)
    assert result["p"] == pytest.approx(2 / 2**8, abs=1e-4)  # of eight that only one has right
    assert result["p_randomisation"] < 0.05 and result["interval"][0] > 0
    assert describe_counts(compared) == "21 sentences, 1 run of 2 folds"
    assert describe_counts({**compared, "folds": 1}) == "21 sentences, 1 run of 1 fold"
    low, high = rows[1]["intervals"]["accuracy"]
    assert low < 100 * 19 / 21 < high
    rows = [{**row, "data": "cr"} for row in rows]
    note = "Difference in all folds together from transformer: n = 21 sentences, 1 run of 2 folds, "
    assert footnote(rows, {"da": compared})[1].startswith(note + "tested over the same")


def test_one_run_of_folds_is_not_tested_beside_several(tmp_path):
    runs = {"transformer": [("aab", "ab"), ("abb", "ab")], "da": [("aaa", "aa")]}
    rows = [folded(name, *each) for name, each in runs.items()]
    add_comparisons(rows, [predicted(tmp_path / name, *each) for name, each in runs.items()])
    assert "intervals" in rows[0] and "intervals" in rows[1] and "compared" not in rows[1]


def test_missing_folds_are_counted():
    row = {"seeds": [1, 2], "folds": [0, 1], "scores": {"accuracy": [1.0, 2.0, 3.0]}}
    assert counted_runs(row, "accuracy") == "3 of 2 × 2 folds"
    row["scores"]["accuracy"].append(4.0)
    assert counted_runs(row, "accuracy") == "2 × 2 folds"
    rows = [{**row, "paper": {"accuracy": None}, "data": "cr"}] * 2
    assert footnote(rows, {})[-1] == "Differences are not tested"


def test_the_best_of_a_cross_validation_is_a_run_and_its_hours_are_a_fold_s():
    rows = [
        {**folded("two runs", ("aaab", "aa"), ("aabb", "aa")), "paper": {"accuracy": 80.0}},
        {**folded("one run", ("bbbb", "aa")), "paper": {"accuracy": 80.0}},
    ]
    header, _, *lines = render([{**row, "hours": 0.5} for row in rows], {}).splitlines()
    assert "hours a fold" in header and "hours a run" not in header
    assert [line.split("|")[4].strip() for line in lines] == ["87.50", "50.00"]


def test_a_single_run_of_folds_has_an_exact_test_of_accuracy_only(tmp_path):
    rows = [folded(name, ("aaa", "aa"), macro_f1=[50.0, 50.0]) for name in ("transformer", "da")]
    statistics = [predicted(tmp_path / name, ("aaa", "aa")) for name in ("transformer", "da")]
    assert statistics[0][0].metrics.keys() == {"accuracy", "macro_f1"}
    add_comparisons(rows, statistics)
    assert rows[1]["compared"]["metrics"].keys() == {"accuracy"}
    (tmp_path / "da" / "fold1-seed1" / "predictions-test.txt").write_text("a\n")
    with pytest.raises(UsageError, match="fold1-seed1/predictions-test.txt is no file of pred"):
        read_kept([[tmp_path / "da" / f"fold{fold}-seed1" for fold in (0, 1)]])


def test_the_difference_of_macro_f1_is_that_of_the_means_over_folds(tmp_path):
    """Each word has a fold's predictions; the labels of both folds are "aab" and "abb"."""
    labels = ("aab", "abb")
    runs = {"transformer": [("aaa", "abb"), ("aab", "aab")], "da": [("abb", "abb"), ("aba", "bbb")]}
    rows, statistics = [], []
    for name, each in runs.items():
        predicted(tmp_path / name, *each)
        for path in (tmp_path / name).glob("*/predictions-test.txt"):
            text = path.read_text().splitlines()
            fold = zip(text, labels[int(path.parent.name[4])], strict=True)
            path.write_text("".join(f"{line[0]}\t{label}\n" for line, label in fold))
        folders = [
            [tmp_path / name / f"fold{fold}-seed{seed}" for fold in (0, 1)] for seed in (1, 2)
        ]
        statistics.append(read_kept(folders))
        f1 = [macro_f1([run[fold]], labels[fold], "ab").mean for fold in (0, 1) for run in each]
        rows.append(
            {**folded(name, *each), "scores": {"macro_f1": f1}, "paper": {"macro_f1": None}}
        )
    add_comparisons(rows, statistics)
    theirs, ours = (sum(row["scores"]["macro_f1"]) / 4 for row in rows)
    result = rows[1]["compared"]["metrics"]["macro_f1"]
    assert result["difference"] == pytest.approx(ours - theirs, abs=1e-4)
    assert result["interval"][0] < ours - theirs < result["interval"][1]
    note = footnote([{**row, "data": "cr"} for row in rows], {"da": rows[1]["compared"]})[1]
    assert note.startswith("Difference in all folds together (macro F1: mean over folds) from ")
    numbers = statistics[0][0].metrics["macro_f1"][0]  # of a sentence
    assert len(numbers) == 2 * len({"a", "b"})  # as without folds, else tests take minutes
