"""Learning-rate search: trials, the selected rate, and the runs that use it."""

import json

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.options import Options
from fairseq_posattn.recipes.recipe import Row
from fairseq_posattn.recipes.runs import Run, Step
from fairseq_posattn.recipes.tuning import explain_rates, tune

FLAGS = "--lr-scheduler inverse_sqrt --lr 1e-3"
TUNE = ("--tune", "5e-4,1e-3,2e-3", "--tune-updates", 600)
CR = ("classifiers/compare", "--rows", "mpsan", "--datasets", "cr", "--folds", 1)


@pytest.fixture
def tried(tmp_path):
    """``tried({rate: numbers of each validation}, more flags)``: a tuning of these rates.

    None instead of the numbers: not tried yet; "diverged": ended with an error. With ``seeds``, a
    list for each rate.
    """

    def tried(validations, flags="", name="loss", seeds=None):
        def run_of(row, seed):
            rate = row.flags.split()[-1]
            folder = tmp_path / rate / f"seed{seed}"
            folder.mkdir(parents=True)
            numbers = validations[float(rate)]
            numbers = numbers[seed - 1] if seeds else numbers
            log = "FloatingPointError: gradients are Nan/Inf\n" if numbers == "diverged" else ""
            for updates, number in enumerate([] if log else numbers or (), 1):
                line = {f"valid_{name}": str(number), "valid_num_updates": str(updates)}
                log += f"x | INFO | valid | {json.dumps({'epoch': 1, **line})}\n"
            (folder / "train.log").write_text(log)
            if numbers is not None:
                (folder / "trained").write_text("diverged" if numbers == "diverged" else "")
            step = Step("train", ("fairseq-train",), done=folder / "trained")
            settings = ("data /data", f"seed {seed}", f"train {FLAGS} {row.flags} {flags}")
            return Run("A", folder, settings, (step, step), updates=600)

        options = Options(tune=tuple(validations), tune_seeds=seeds or 1)
        return tune("A", Row("A", flags="--arch a"), FLAGS, options, run_of)

    return tried


def test_the_lowest_loss_after_all_updates_is_selected(tried):
    tuning = tried({2e-3: [9, 4.5], 1e-3: [2, 5], 5e-4: [6, 4.25], 4e-4: [7, 8]})
    outcome = tuning.outcome()
    assert outcome == {
        "seeds": [1],
        "updates": 600,
        "metric": "lowest validation loss",
        "tried": {"0.002": 4.5, "0.001": 5, "0.0005": 4.25, "0.0004": 8},
        "chosen": 5e-4,
    }
    assert tuning.tuned().flags == "--arch a --lr 0.0005"
    line = "A: learning rate 0.0005, lowest validation loss of 0.002 4.5, 0.001 5.0, "
    assert tuning.summary().startswith(line)
    rates = "learning rates chosen from 0.002, 0.001, 0.0005, 0.0004 by lowest validation loss"
    explained = list(explain_rates([{"row": "B"}, {"row": "A", "tuning": outcome}]))
    assert explained == [f"{rates} after 600 updates (seed 1)"]


def test_the_metric_that_selects_checkpoints_selects_the_rate(tried):
    flags = "--best-checkpoint-metric f1 --maximize-best-checkpoint-metric"
    outcome = tried({2e-3: [9, 4.5], 1e-3: [2, 5], 5e-4: [6, 4]}, flags, "f1").outcome()
    assert (outcome["metric"], outcome["chosen"]) == ("highest validation f1", 1e-3)


def test_the_default_rate_changes_nothing(tried):
    assert tried({5e-4: [5], 1e-3: [4]}).tuned() == Row("A", flags="--arch a")


@pytest.mark.parametrize("failed", ["diverged", [1, "nan"], [1, "inf"], [1, "-inf"]])
def test_a_diverged_rate_is_not_selected(tried, failed):
    outcome = tried({5e-4: [5], 2e-3: failed}).outcome()
    assert (outcome["tried"], outcome["chosen"]) == ({"0.0005": 5, "0.002": None}, 5e-4)


def test_rates_that_all_diverge_are_refused(tried):
    with pytest.raises(UsageError, match="A diverged with --tune 0.0005,"):
        tried({5e-4: "diverged", 1e-3: [1, "nan"]}).summary()


def test_the_best_mean_of_several_seeds_is_selected(tried):
    """One rate is best with the first seed, another in the mean; a third diverges with a seed."""
    runs = {5e-4: [[2], [9]], 1e-3: [[5], [4.5]], 2e-3: [[1], "diverged"]}
    outcome = tried(runs, seeds=2).outcome()
    assert outcome["tried"] == {"0.0005": 5.5, "0.001": 4.75, "0.002": None}
    assert (outcome["chosen"], outcome["seeds"]) == (1e-3, [1, 2])
    # Rows with other trials are named.
    rows = [{"row": "A", "tuning": {**outcome, "fold": 0}}, {"row": "B", "tuning": outcome}]
    a, b = explain_rates(rows)
    assert a.startswith("learning rates of A chosen") and "of B" in b
    assert a.endswith("(mean of seeds 1, 2, fold 0)") and b.endswith("(mean of seeds 1, 2)")


def test_nothing_is_selected_before_all_trials_ended(tried):
    tuning = tried({5e-4: [[2], [9]], 1e-3: [[5], None]}, seeds=2)
    assert tuning.outcome() is None
    assert tuning.tuned().flags.endswith("--lr BEST")


@pytest.mark.parametrize(
    "flags, mentions",
    [
        ("--lr-scheduler fixed --lr 1e-3,1e-4", "A is not trained with one learning rate, but by"),
        ("--lr-scheduler manual --lr 1", "--lr-scheduler manual"),
        ("--lr-scheduler cosine --lr 1", "cosine depends on the length"),
    ],
)
def test_schedules_without_one_rate_are_refused(flags, mentions, tmp_path):
    run = Run("A", tmp_path, (f"train {flags}",), ())
    with pytest.raises(UsageError, match=mentions):
        tune("A", Row("A"), flags, Options(tune=(1, 2)), lambda row, seed: run)


@pytest.mark.parametrize(
    "recipe, seed",
    [(("dman/iwslt14", "--rows", "DMAN (released form)"), "--seed"), (CR, "--seeds")],
)
def test_a_trial_differs_by_rate_length_and_folder(plan_of, recipe, seed):
    (tuning,) = plan_of(*recipe, seed, 2, *TUNE).tunings()
    assert [run.updates for run in tuning.runs] == [600] * 3
    for run, rate in zip(tuning.runs, ("0.0005", "0.001", "0.002"), strict=True):
        (train,) = run.steps
        words = " ".join(train.command)
        assert " --max-update 600 " in words and "--max-epoch" not in words
        assert words[words.rindex("--lr ") :].startswith(f"--lr {rate} ")
        assert " --seed 1 " in words
        assert run.folder.is_relative_to("/out/tuning")
    other = plan_of(*recipe, seed, 1, *TUNE).tunings()[0]
    assert [run.folder for run in other.runs] == [run.folder for run in tuning.runs]


def test_patience_of_the_user_ends_no_trial_early(plan_of):
    (tuning,) = plan_of(*CR, *TUNE, "--", "--patience", 2).tunings()
    assert [run.steps[0].command[-1] for run in tuning.runs] == ["-1"] * 3
    (tuning,) = plan_of(*CR, *TUNE).tunings()
    assert "-1" not in tuning.runs[0].steps[0].command


def test_further_seeds_keep_the_trials_of_the_first(plan_of):
    (one_seed,) = plan_of(*CR, *TUNE).tunings()
    (two_seeds,) = plan_of(*CR, *TUNE, "--tune-seeds", 2).tunings()
    commands = [run.steps[0].command for run in two_seeds.runs]
    assert [words[words.index("--seed") + 1] for words in commands] == ["1", "2"] * 3
    assert two_seeds.runs[::2] == one_seed.runs
    assert len({run.folder for run in two_seeds.runs} | {run.name for run in two_seeds.runs}) == 12


@pytest.mark.parametrize(
    "recipe, rows, names",
    [
        ("mpsan/table6_sentences", "MPSAN", "trec, MPSAN; cr, MPSAN; mpqa, MPSAN; subj, MPSAN"),
        ("dman/gigaword", "DMAN (paper form)", "DMAN (paper form)"),
        ("da_transformer/table5_mind", "NRMS,Popularity", "mind, NRMS"),
        ("dman/cnn_dailymail", "LEAD-3", ""),
    ],
)
def test_trained_rows_are_tuned_for_each_data_set(plan_of, recipe, rows, names):
    tunings = plan_of(recipe, "--rows", rows, *TUNE).tunings()
    assert "; ".join(tuning.name for tuning in tunings) == names
    assert plan_of(recipe, "--rows", rows).tunings() == []
