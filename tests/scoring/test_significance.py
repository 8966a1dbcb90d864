"""Significance of differences, compared with sacreBLEU and with loops."""

import json
import random
from pathlib import Path

import numpy
import pytest
from sacrebleu.metrics import BLEU, TER
from sacrebleu.significance import PairedTest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.scoring.bleu import group_of
from fairseq_posattn.scoring.commands.score import score
from fairseq_posattn.scoring.outputs import Pairs
from fairseq_posattn.scoring.result import metric_of, read_statistics
from fairseq_posattn.scoring.significance import (
    MEAN_OF_SENTENCES,
    Group,
    compare,
    corrected,
    of_sentences,
)

ENGLISH = ["--language", "en"]
WORDS = ["a", "man", "in", "red", "hat", "is", "looking", "at", "the", "woman", "with", "dog"]


def damaged(lines, share, seed):
    generator = random.Random(seed)
    return [" ".join(word for word in line.split() if generator.random() > share) for line in lines]


@pytest.fixture(scope="module")
def texts():
    """Return references, a system, and a slightly worse baseline."""
    generator = random.Random(1)
    references = [" ".join(generator.choices(WORDS, k=12)) + "." for _ in range(40)]
    return references, damaged(references, 0.2, seed=2), damaged(references, 0.25, seed=3)


def by_metric(metric, references, *systems):
    """Return a group of a single run for each system."""
    return [group_of(metric, [Pairs(system, references)]) for system in systems]


@pytest.mark.slow
def test_p_equals_sacrebleu(texts):
    references, system, baseline = texts
    for metric, name in ((BLEU(force=True), "BLEU"), (TER(), "TER")):
        result = compare(*by_metric(metric, references, system, baseline))
        systems = [("baseline", baseline), ("system", system)]
        for kind, ours in (("bs", "p"), ("ar", "p_randomisation")):
            _, theirs = PairedTest(systems, {name: metric}, [references], test_type=kind)()
            before, after = theirs[name]
            assert result.baseline == before.score
            assert result.difference == after.score - before.score
            assert getattr(result, ours) == after.p_value
            assert 1 / 1001 < after.p_value < 1  # of a difference that could be chance
    same = compare(*by_metric(BLEU(force=True), references, system, system))
    assert same.p == same.p_randomisation == 1  # for which sacreBLEU prints its smallest p


def test_two_different_sentences_are_not_significant():
    """Check a case for which sacreBLEU's tests have p below 0.001 and 0.06."""
    baseline = of_scores([0, 0, *[1] * 98])
    result = compare(of_scores([1] * 100), baseline)
    assert result.p_randomisation == pytest.approx(1 / 2, abs=0.05)
    assert result.p == 1 / 2  # the bootstrap's alone: 0.28


@pytest.mark.parametrize(("sentences", "p"), [(1, 1), (5, 1 / 16)])
def test_the_bootstrap_of_few_sentences_has_the_exact_p(sentences, p):
    """Check summaries that all gain, as in a range of lengths: every sample has the gain."""
    assert compare(of_scores([30] * sentences), of_scores([20] * sentences)).p == p


@pytest.mark.parametrize(("differ", "p"), [(1, 1), (2, 1 / 2), (4, 1 / 8)])
def test_randomization_of_few_different_translations_has_the_exact_p(texts, differ, p):
    """Check a case for which sacreBLEU's has its smallest p, 1 of 10,001."""
    references, system, _ = texts
    baseline = ["dog" if row < differ else line for row, line in enumerate(system)]
    result = compare(*by_metric(TER(), references, system, baseline))
    assert result.p_randomisation == p


def of_scores(*runs):
    """Return a system of runs with these sentence scores."""
    return Group(MEAN_OF_SENTENCES, [of_sentences(scores) for scores in runs])


def test_sentences_are_resampled_in_pairs():
    generator = numpy.random.default_rng(1)
    baseline = generator.uniform(0, 100, size=30)
    system = baseline + generator.normal(2, 8, size=30)
    result = compare(of_scores(system), of_scores(baseline))
    gained = system - baseline
    assert result.baseline == pytest.approx(baseline.mean())
    assert result.difference == pytest.approx(gained.mean())
    resampled = [generator.choice(gained, size=30).mean() for _ in range(20_000)]
    assert result.interval == pytest.approx(numpy.percentile(resampled, [2.5, 97.5]), abs=0.5)
    by_chance = numpy.abs(resampled - gained.mean())  # on either side
    assert result.p == pytest.approx((by_chance >= abs(gained.mean())).mean(), abs=0.03)
    signs = generator.choice([-1, 1], size=(20_000, 30))
    exchanged = abs((signs * gained).mean(axis=1))
    assert result.p_randomisation == pytest.approx((exchanged > gained.mean()).mean(), abs=0.03)


def test_p_does_not_depend_on_the_unit():
    errors = numpy.random.default_rng(3).uniform(1, 2, size=30)
    for unit in (1, 1e-10):  # errors of rates
        result = compare(of_scores(unit * errors), of_scores(2 * unit * errors))
        assert result.p == result.p_randomisation == pytest.approx(1 / 1001)


def test_mean_and_deviation_are_over_runs_of_which_one_fewer_is_drawn():
    group = of_scores([10, 20], [30, 40], [20, 30])
    assert group.scores == [15, 35, 25]
    assert (group.mean, group.deviation) == (25, 10)
    assert group.explanation.startswith("mean ± standard deviation of 3 runs, in brackets")
    assert of_scores([10, 20]).deviation is None
    # Sentences are equal, so that only runs differ: two of 10, 11 and 12 are drawn.
    low, high = of_scores([10] * 5, [11] * 5, [12] * 5).interval
    assert (low, high) == (10, 12)  # with one chance in nine each; of three, one in 27
    # One of the two runs is drawn: the result is 0 or 10, never the mean 5.
    assert of_scores([0] * 5, [10] * 5).interval == (0, 10)


def test_the_interval_covers_sentences_and_runs():
    """Check that both variances of the difference, s² / n, are added."""
    generator = numpy.random.default_rng(2)
    runs, sentences = 8, 400
    shared = generator.normal(0, 5, size=sentences)  # as hard for both systems: it cancels out
    offsets = numpy.linspace(-1, 1, runs)
    gain = generator.normal(0, 4, size=sentences)
    system = of_scores(*(shared + gain + offset for offset in offsets))
    result = compare(system, of_scores(*(shared + offset for offset in offsets)))
    spread = (gain.var() / sentences + 2 * offsets.var(ddof=1) / runs) ** 0.5
    low, high = result.interval
    assert (high - low) / 2 == pytest.approx(1.96 * spread, rel=0.12)
    assert 1.96 * spread > 2 * 1.96 * gain.std() / sentences**0.5  # runs weigh more here


def test_p_is_two_sided_and_over_runs():
    # The run drawn, 9 or 11, is 1 from the mean; zero is as far from the difference.
    assert compare(of_scores([9] * 4, [11] * 4), of_scores([9] * 4, [9] * 4)).p == 1
    # A difference of 2 exceeds every draw; the observation counts once.
    few = compare(of_scores([10] * 4, [12] * 4), of_scores([9] * 4, [9] * 4))
    assert few.p == pytest.approx(1 / 1001)


def test_outputs_of_a_sentence_are_permuted_among_all_runs():
    # Six ways to assign two ones and two zeros to two systems; two separate them.
    one_sentence = compare(of_scores([1], [1]), of_scores([0], [0]))
    assert one_sentence.p_randomisation == pytest.approx(1 / 3, abs=0.05)
    # Sentences are assigned independently: 2 of 36 ways separate both.
    two_sentences = compare(of_scores([1, 1], [1, 1]), of_scores([0, 0], [0, 0]))
    assert two_sentences.p_randomisation == pytest.approx(1 / 18, abs=0.03)
    # One run against three: the single run has the right output in one of four ways.
    unequal = compare(of_scores([1]), of_scores([0], [0], [0]))
    assert unequal.p_randomisation == pytest.approx(1 / 4, abs=0.05)


def test_p_is_corrected_for_the_number_of_tests():
    # Holm: 4 * 0.01, 3 * 0.02, then at least as much; Benjamini and Hochberg: 4 * 0.01, 4 / 2 *
    # 0.02, 4 / 3 * 0.03, 0.04, each at most the next.
    holm, rate = zip(*corrected([0.03, 0.01, 0.04, 0.02]), strict=True)
    assert holm == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert rate == pytest.approx([0.04] * 4)
    assert corrected([0.6, 0.7])[0][0] == 1


@pytest.fixture
def files(texts, write):
    flags = []
    for name, lines in zip(("references", "hypotheses", "baseline"), texts, strict=True):
        flags += [f"--{name}", write(name, lines)]
    return flags


@pytest.fixture
def statistics_of(tmp_path):
    """Return ``statistics_of(kind, arguments)``: the statistics that a score writes."""

    def statistics_of(kind, arguments):
        assert score(kind, [*arguments, "--statistics", str(tmp_path / "statistics")]) == 0
        return read_statistics(tmp_path / "statistics")

    return statistics_of


def check_p(significance, *kept):
    """Check that statistics of a system and a baseline give the p of a comparison."""
    assert kept[0].test_set == kept[1].test_set
    assert {*kept[0].metrics} == {*kept[1].metrics} == significance.keys()
    for name, result in significance.items():
        groups = [Group(metric_of(name), [system.metrics[name]]) for system in kept]
        assert compare(*groups).p == result["p"]


def test_scores_of_a_comparison_are_corrected(
    files, statistics_of, few_draws, tmp_path, capsys, as_json
):
    arguments = [*files, "--jobs", "1"]
    texts = ([*files[:2], "--hypotheses", files[index]] for index in (3, 5))
    kept = [statistics_of("rouge", text) for text in texts]
    assert score("rouge", arguments) == 0
    printed = capsys.readouterr().out
    tested = as_json("rouge", arguments)["significance"]
    tested.pop("tests")
    check_p(tested, *kept)
    ps = [(test["p_holm"], test["p_benjamini_hochberg"]) for test in tested.values()]
    assert ps == corrected([test["p"] for test in tested.values()])
    assert ps[0][0] >= tested["rouge1"]["p"]
    line = f"(Holm; Benjamini and Hochberg): ROUGE-1 {ps[0][0]:.4f} and {ps[0][1]:.4f}, ROU"
    assert f"bootstrap p corrected for 3 tests {line}" in printed


@pytest.fixture
def comet(texts, write):
    """Return the path of a file such as comet-score writes; scores are shares of 12 words."""
    references, *systems = texts
    rows = {
        name: [
            {"src": "ein", "mt": line, "ref": reference, "COMET": len(line.split()) / 12}
            for line, reference in zip(system, references, strict=True)
        ]
        for name, system in zip(("ours", "theirs"), systems, strict=True)
    }
    return write("comet.json", [json.dumps(rows)])


@pytest.mark.slow
def test_bleu_and_comet_are_compared_with_a_baseline(
    texts, comet, files, statistics_of, write, capsys, as_json
):
    generated = []
    for name, lines in zip(("hypotheses", "baseline"), texts[1:], strict=True):
        rows = [f"T-{number}\t{line}" for number, line in enumerate(texts[0])]
        rows += [f"H-{number}\t-1\t{line}" for number, line in enumerate(lines)]
        generated.append(write(f"generated {name}", rows))
    system, baseline = (["--generated", path, "--comet", comet, *ENGLISH] for path in generated)
    kept = [statistics_of("bleu", arguments) for arguments in (system, baseline)]
    capsys.readouterr()
    result = as_json("bleu", [*system, "--baseline", generated[1]])
    tests = result["significance"].pop("tests")
    assert "by sacreBLEU, whose bootstrap has one side, bs:1000" in tests
    assert "; COMET on the same sentences, bs:1000, ar:1000, seed" in tests
    check_p(result["significance"], *kept)
    groups = by_metric(BLEU(force=True), *texts)
    assert [run.metrics["bleu"] for run in kept] == [group.runs[0] for group in groups]
    assert result["p"] == result["significance"]["bleu"]["p"]
    assert result["baseline"] == groups[1].mean
    assert result["bleu"] == pytest.approx(result["baseline"] + result["difference"])
    assert result["significance"]["ter"]["difference"] < 0
    ours, theirs = (100 * numpy.mean([len(o.split()) / 12 for o in lines]) for lines in texts[1:])
    assert result["comet"] == pytest.approx(ours)
    assert result["signatures"]["comet"] == f"comet|scores:{comet}"
    assert result["significance"]["comet"]["difference"] == pytest.approx(ours - theirs)
    other = [*files[:-1], files[1]]  # the references as baseline have no scores
    assert score("bleu", [*other, "--comet", comet, *ENGLISH]) == 1
    assert "none of its systems has the translations from" in capsys.readouterr().err


@pytest.fixture
def groups(texts, write):
    """Return the flags for two runs of each system, and the runs."""
    references = texts[0]
    runs = [damaged(references, share, seed) for seed, share in enumerate((0.2, 0.22, 0.3, 0.33))]
    paths = [write(f"run{number}", run) for number, run in enumerate(runs)]
    flags = ["--hypotheses", *paths[:2], "--baseline", paths[2], "--baseline", paths[3]]
    return [*flags, "--references", write("references", references)], runs


@pytest.mark.slow
def test_runs_of_translation_are_groups(groups, texts, as_json):
    flags, runs = groups
    result = as_json("bleu", [*flags, *ENGLISH])
    values = [BLEU().corpus_score(run, [texts[0]]).score for run in runs]
    assert result["bleu"] == pytest.approx((values[0] + values[1]) / 2)
    assert result["baseline"] == pytest.approx((values[2] + values[3]) / 2)
    assert (result["runs"], result["baseline_runs"], result["sentences"]) == (2, 2, 40)
    assert result["p"] < 0.05 and result["significance"]["ter"]["difference"] < 0
    assert result["significance"]["tests"].startswith("sentences and runs, ")
    assert result["counts"]["scored"] == 80


def test_runs_of_summaries_are_groups(groups, few_draws, as_json):
    result = as_json("rouge", [*groups[0], "--jobs", "1"])
    assert result["rougeL_deviation"] > 0 and result["p"] < 0.05
    assert result["rouge1"] == pytest.approx(result["baseline"] + result["difference"])
    assert set(result["significance"]) == {"rouge1", "rouge2", "rougeL", "tests"}
    assert result["intervals"]["rouge1"] == result["interval"]


OTHERS = ["", "[]", '{"test set": "x"}', '{"test set": "x", "metrics": {}}']
OTHERS += ['{"test set": "x", "metrics": {"bleu": [[1]], "ter": [[1], [2]]}}']


@pytest.mark.parametrize("content", OTHERS)
def test_other_files_are_no_statistics(write, content):
    with pytest.raises(UsageError, match="kept: not a file of --statistics; score the run again"):
        read_statistics(Path(write("kept", content)))
