"""Learning rates that are chosen for a row: by what, of what, and where its runs then go."""

import json
import re

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.recipe import Row
from fairseq_posattn.recipes.runs import Run, Step
from fairseq_posattn.recipes.tuning import explained, tune

FLAGS = "--lr-scheduler inverse_sqrt --lr 1e-3"
TUNE = ("--tune", "5e-4,1e-3,2e-3", "--tune-updates", 600)


@pytest.fixture
def tried(tmp_path):
    """``tried({rate: numbers of each validation}, more flags)``: a tuning of these rates.

    In the place of the numbers None: not tried yet; "diverged": it ended with an error. With
    ``seeds`` a list of them, one for each seed.
    """

    def tried(validations, flags="", name="loss", seeds=None):
        def run_of(row, seed):
            rate = row.flags.split()[-1]
            folder = tmp_path / rate / f"seed{seed}"
            folder.mkdir(parents=True)
            numbers = validations[float(rate)]
            if seeds:
                numbers = numbers[seed - 1]
            log = ""
            for updates, number in enumerate(numbers or (), 1):
                found = {f"valid_{name}": str(number), "valid_num_updates": str(updates)}
                log += f"x | INFO | valid | {json.dumps({'epoch': 1, **found})}\n"
            if numbers == "diverged":
                log = "FloatingPointError: gradients are Nan/Inf\n"
            (folder / "train.log").write_text(log)
            if numbers is not None:
                (folder / "trained").write_text("diverged" if numbers == "diverged" else "")
            step = Step("train", ("fairseq-train",), done=folder / "trained")
            settings = ("data /data", f"seed {seed}", f"train {FLAGS} {row.flags} {flags}")
            return Run("A", folder, settings, (step, step), updates=600)

        return tune(Row("A", flags="--arch a"), FLAGS, tuple(validations), seeds or 1, run_of, "A")

    return tried


def test_the_lowest_loss_after_all_updates(tried):
    """Not the first, not the last, and not the lowest in between."""
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
    told = "A: learning rate 0.0005, lowest validation loss of 0.002 4.5, 0.001 5.0, "
    assert tuning.summary().startswith(told)
    of = "each learning rate is the one of 0.002, 0.001, 0.0005, 0.0004 with the lowest validation "
    row = {"row": "A", "tuning": outcome}
    assert list(explained([{"row": "B"}, row])) == [f"{of}loss after 600 updates (seed 1)"]


@pytest.mark.parametrize("flags, chosen", [("--maximize-best-checkpoint-metric", 2e-3), ("", 5e-4)])
def test_the_metric_that_chooses_checkpoints(tried, flags, chosen):
    by = f"--best-checkpoint-metric f1 {flags}"
    assert tried({5e-4: [50], 2e-3: [60]}, by, "f1").outcome()["chosen"] == chosen


def test_the_default_rate_changes_nothing(tried):
    assert tried({5e-4: [5], 1e-3: [4]}).tuned() == Row("A", flags="--arch a")


@pytest.mark.parametrize("failed", ["diverged", [1, "nan"], [1, "inf"], [1, "-inf"]])
def test_what_diverged_is_not_chosen(tried, failed):
    outcome = tried({5e-4: [5], 2e-3: failed}).outcome()
    assert (outcome["tried"], outcome["chosen"]) == ({"0.0005": 5, "0.002": None}, 5e-4)


def test_all_diverged(tried):
    tuning = tried({2e-3: ["nan"], 1e-3: "diverged"})
    assert tuning.outcome() is None
    with pytest.raises(UsageError, match="^A diverged with each .* 0.002,0.001: try") as told:
        tuning.summary()
    assert "\n" not in str(told.value)


def test_the_best_mean_of_several_seeds(tried):
    """One rate is best with the first seed, another in the mean; with a third one seed diverges."""
    runs = {5e-4: [[2], [9]], 1e-3: [[5], [4.5]], 2e-3: [[1], "diverged"]}
    outcome = tried(runs, seeds=2).outcome()
    assert outcome["tried"] == {"0.0005": 5.5, "0.001": 4.75, "0.002": None}
    assert (outcome["chosen"], outcome["seeds"]) == (1e-3, [1, 2])
    (text,) = explained([{"row": "A", "tuning": {**outcome, "fold": 0}}])
    assert text.endswith("(mean of seeds 1, 2, fold 0)")


def test_rows_that_were_tuned_otherwise_are_named():
    tuning = {"seeds": [1], "updates": 600, "metric": "highest validation f1"}
    few, many = ({**tuning, "tried": tried} for tried in ({"0.1": 1}, {"0.1": 1, "0.2": 2}))
    rows = [{"row": name, "tuning": how} for name, how in zip("ABC", (few, many, few), strict=True)]
    how = "with the highest validation f1 after 600 updates (seed 1)"
    assert list(explained(rows)) == [
        f"each learning rate of A, C is the one of 0.1 {how}",
        f"each learning rate of B is the one of 0.1, 0.2 {how}",
    ]


def test_nothing_is_chosen_before_all_are_tried(tried):
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
def test_what_cannot_be_tuned(flags, mentions, tmp_path):
    run = Run("A", tmp_path, (f"train {flags}",), ())
    with pytest.raises(UsageError, match=mentions):
        tune(Row("A"), flags, [1, 2], 1, lambda row, seed: run, "A")


# --- Of the recipes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "recipe, seed",
    [
        (["dman/iwslt14", "--rows", "DMAN (released)"], "--seed"),
        (["classifiers/compare", "--rows", "mpsan", "--datasets", "cr", "--folds", 1], "--seeds"),
    ],
)
def test_a_trial_is_the_recipe_with_another_rate_and_length(plan_of, recipe, seed):
    """With seed 1, whatever is plan for; its checkpoints are nobody else's."""
    plan = plan_of(*recipe, seed, 2, *TUNE)
    (tuning,) = plan.tunings()
    assert [run.updates for run in tuning.runs] == [600] * 3
    main = plan_of(*recipe, seed, 2).runs()[-1].steps[0].command
    for run, rate in zip(tuning.runs, ("0.0005", "0.001", "0.002"), strict=True):
        (train,) = run.steps
        words = list(train.command)
        assert words[words.index("--max-update") + 1] == "600" and "--max-epoch" not in words
        assert [words[n + 1] for n, word in enumerate(words) if word == "--lr"][-1] == rate
        assert words[words.index("--seed") + 1] == "1"
        assert set(words) - set(main) <= {
            *("600", rate, "1", str(run.folder)),
            *("--max-update", "--validate-interval-updates", "--save-interval-updates"),
            *("--keep-interval-updates", "--validate-interval", "--save-interval", "1000000"),
        }
        assert run.folder.is_relative_to("/out/tuning")
    other = plan_of(*recipe, seed, 1, *TUNE).tunings()[0]
    assert [run.folder for run in other.runs] == [run.folder for run in tuning.runs]


def test_trials_with_several_seeds(plan_of):
    """Those of the first seed are where they are with one alone."""
    recipe = ("classifiers/compare", "--rows", "mpsan", "--datasets", "cr", "--folds", 1)
    (one,) = plan_of(*recipe, *TUNE).tunings()
    (two,) = plan_of(*recipe, *TUNE, "--tune-seeds", 2).tunings()
    commands = [run.steps[0].command for run in two.runs]
    assert [words[words.index("--seed") + 1] for words in commands] == ["1", "2"] * 3
    assert two.runs[::2] == one.runs
    assert len({run.folder for run in two.runs} | {run.name for run in two.runs}) == 12


def test_the_data_set_is_named_if_there_are_several(plan_of):
    several = plan_of("classifiers/compare", "--rows", "dman", "--datasets", "trec,cr", *TUNE)
    assert [tuning.name for tuning in several.tunings()] == ["trec, dman", "cr, dman"]
    assert [tuning.name for tuning in plan_of("dman/gigaword", *TUNE).tunings()][
        -1
    ] == "DMAN (paper)"


def test_what_is_not_trained_is_not_tuned(plan_of):
    tunings = plan_of("da_transformer/table5_mind", "--rows", "NRMS,Popularity", *TUNE).tunings()
    assert [tuning.row.name for tuning in tunings] == ["NRMS"]
    assert plan_of("dman/cnn_dailymail", "--rows", "LEAD-3", *TUNE).tunings() == []
    assert plan_of("dman/iwslt14").tunings() == []


@pytest.mark.parametrize(
    "arguments, mentions",
    [
        (["--tune", "1e-3", "--tune-updates", 9], "--tune 1e-3: give two or more"),
        (["--tune", "1e-3,0.001", "--tune-updates", 9], "give two or more"),
        (["--tune", "1e-3,-1", "--tune-updates", 9], "positive numbers"),
        (["--tune", "1e-3,nan", "--tune-updates", 9], "positive numbers"),
        (["--tune", "1e-3,fast", "--tune-updates", 9], "--tune 1e-3,fast: give"),
        (["--tune", "1e-3,2e-3", "--tune-updates", 0], "--tune-updates '0' is not a positive"),
        (["--tune", "1e-3,2e-3"], "--tune-updates N"),
        (["--tune-updates", 9], "--tune LIST"),
        (["--tune-seeds", 2], "--tune-seeds 2 needs --tune LIST"),
        ([*TUNE, "--", "--lr", "1e-3"], "remove --lr"),
        ([*TUNE, "--", "--max-epoch", 9], "--max-epoch after -- .* give --max-update before --"),
        ([*TUNE, "--", "--max-update=9"], "--max-update after -- "),
    ],
)
def test_refused(plan_of, arguments, mentions):
    with pytest.raises(UsageError) as refused:
        plan_of("dman/iwslt14", *arguments)
    assert re.search(mentions, str(refused.value)) and "\n" not in str(refused.value)
