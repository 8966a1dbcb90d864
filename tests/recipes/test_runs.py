"""Runs: their data, earlier shorter runs, failed commands and shared updates."""

import re
import threading
from dataclasses import replace

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import locked
from fairseq_posattn.recipes import results
from fairseq_posattn.recipes.plan import share
from fairseq_posattn.recipes.processes import Processes
from fairseq_posattn.recipes.progress import Progress
from fairseq_posattn.recipes.runner import Runner
from fairseq_posattn.recipes.runs import (
    BINARIZED,
    LARGEST,
    LOCK,
    Run,
    Step,
    code_in,
    length_dependent_schedule,
)

FILES = {
    "glove.txt": "2 3",
    "fold0/input0/dict.txt": "dog 2",
    "fold0/input0/train.bin": "123",
    "fold0/input0/train.idx": "12",
    "fold0/text/train.input0": "dog",
    "fold1/input0/train.bin": "123",
}


@pytest.fixture
def run(tmp_path):
    """Return a run on the first of two folds, which share word vectors."""
    for name, text in FILES.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    settings = (f"data {tmp_path / 'data' / 'fold0'}", "train --lr 1 --max-update 200")
    run = Run("model", tmp_path / "model-200" / "seed1", settings, ())
    run.folder.mkdir(parents=True)
    return run


@pytest.mark.parametrize(
    ("name", "text", "same"),
    [
        ("fold0/input0/dict.txt", "cat 2", False),
        ("fold0/input0/train.bin", "1234", False),
        ("fold0/input0/train.bin", "321", False),  # such as a corrected label
        ("fold0/input0/test.idx", "", False),
        ("glove.txt", "2 300", False),
        ("fold0/text/train.input0", "something else", True),
        ("fold1/input0/train.bin", "something else", True),
    ],
)
def test_replaced_data_is_detected(run, tmp_path, name, text, same):
    run.require_same_data()  # a run without a fingerprint
    run.start()
    (tmp_path / "data").rename(tmp_path / "away")
    (tmp_path / "away").rename(tmp_path / "data")
    run.require_same_data()
    (tmp_path / "data" / name).write_text(text)
    if same:
        run.require_same_data()
        return
    with pytest.raises(UsageError, match=f"{run.folder} was trained on other data than .* has now"):
        run.require_same_data()


def test_runs_in_the_folder_of_their_data_do_not_change_it(run, tmp_path):
    """Training copies dictionaries beside checkpoints."""
    runs = [replace(run, folder=tmp_path / f"data/fold0/runs/{name}/seed1") for name in "AB"]
    for each in runs:
        (each.folder / "input0").mkdir(parents=True)
        each.start()
        for name in ("dict.de.txt", "input0/dict.txt"):
            (each.folder / name).write_text("dog 2")
    for each in runs:
        each.require_same_data()


def test_changed_scores_of_regression_are_detected(run, tmp_path):
    scores = tmp_path / "data/fold0/label/train.label"
    scores.parent.mkdir()
    scores.write_text("4.2\n")
    run.start()
    run.require_same_data()
    scores.write_text("2.4\n")
    with pytest.raises(UsageError, match="was trained on other data"):
        run.require_same_data()


@pytest.mark.parametrize("form", [(0, BINARIZED), (LARGEST, BINARIZED)])
def test_the_fingerprint_of_older_versions_is_known(run, tmp_path, form):
    (tmp_path / "data/fold0/label").mkdir()
    (tmp_path / "data/fold0/label/train.label").write_text("4.2\n")
    (run.folder / "data-fingerprint").write_text(run._fingerprint(*form))
    run.require_same_data()


def test_runs_that_are_only_shorter(run, tmp_path):
    """Not those of other settings, lengths or data."""
    flags = ["--lr 1 --max-update 50", "--lr 1 --max-update 150", "--lr 1 --max-update 300"]
    flags += ["--lr 2 --max-update 150", "--lr 1 --max-epoch 150"]
    for number, words in enumerate(flags):
        folder = tmp_path / f"model-{number}" / "seed1"
        folder.mkdir(parents=True)
        replace(run, folder=folder, settings=(run.settings[0], f"train {words}")).start()
    shorter = [(50, tmp_path / "model-0" / "seed1"), (150, tmp_path / "model-1" / "seed1")]
    assert run.shorter_runs() == shorter
    (tmp_path / "data/fold0/input0/dict.txt").write_text("cat 2")
    assert run.shorter_runs() == []


@pytest.mark.parametrize(
    ("flags", "schedule"),
    [
        ("--lr-scheduler cosine", "cosine"),
        ("--lr-scheduler=cosine", "cosine"),
        ("--lr-scheduler fixed --lr-scheduler polynomial_decay", "polynomial_decay"),
        ("--lr-scheduler tri_stage --phase-ratio (0.1,0.4,0.5)", "tri_stage"),
        ("--lr-scheduler cosine --lr-period-updates 90", None),
        ("--lr-scheduler polynomial_decay --total-num-update 90", None),
        ("--lr-scheduler tri_stage --hold-steps 90", None),
        ("--lr 1", None),
    ],
)
def test_schedules_that_depend_on_the_length(flags, schedule):
    assert length_dependent_schedule([f"train {flags}"]) == schedule


KILLED = "print('epoch 1', flush=True); import os; os.kill(os.getpid(), 9)"
ENDED = "train was ended by a signal: Killed, possibly out of memory"


@pytest.mark.parametrize(
    ("program", "logged", "message"),
    [
        ("exit('no such file')", True, "train failed: no such file (in {log})"),
        ("exit(3)", False, "train failed (exit code 3); the reason is printed above"),
        (KILLED, True, f"{ENDED} (log: {{log}})"),
        (KILLED, False, ENDED),
    ],
)
def test_a_failed_step_is_one_line(tmp_path, program, logged, message):
    log = tmp_path / "train.log" if logged else None
    step = Step("train", ("python", "-c", program), log)
    with pytest.raises(UsageError, match=f"^{re.escape(message.format(log=log))}$"):
        Processes({}).run(step, {})


def test_warnings_of_all_steps_are_said_once(run, tmp_path, capsys):
    line = "x | WARNING | fairseq.tasks.fairseq_task | 2 are left out"
    step = Step("generate", ("python", "-c", f"print({line!r})"), tmp_path / "log")
    runner = Runner("table", (), False, {})
    for name in ("one", "two"):
        runner._run_step(name, run, step, {}, Progress(1))
    said = capsys.readouterr().err
    assert said.count("2 are left out\n") == said.count("table: one: warning: 2 are left") == 1
    hiding = replace(run, hidden=("2 are",))
    Runner("table", (), False, {})._run_step("own", hiding, step, {}, Progress(1))
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("steps", "fix"), [((), "remove {} to train again"), (("generate",), "--steps train makes it")]
)
def test_a_missing_checkpoint_is_one_line(run, steps, fix):
    missing = run.folder / "checkpoint_best.pt"
    step = Step("generate" if steps else "measure", ("python", "-c", ""), needs=missing)
    with pytest.raises(UsageError, match=f"there is no {missing}: {fix.format(run.folder)}$"):
        Runner("table", steps, False, {}).run_all([replace(run, steps=(step,))], [{}])


def test_a_killed_repetition_of_the_output_leaves_no_result(run):
    step = Step("generate", ("python", "-c", "import os; os.kill(os.getpid(), 9)"))
    run.result.write_text("{}")
    with pytest.raises(UsageError, match="generate was ended by a signal"):
        Runner("table", ("generate",), False, {}).run_all([replace(run, steps=(step,))], [{}])
    assert not run.result.exists()


def test_code_that_changes_while_a_recipe_runs_is_refused(run, tmp_path):
    """The run's folder is named by the former code."""
    code = tmp_path / "mine mechanisms" / "__init__.py"
    code.parent.mkdir()
    code.write_text("SHARPNESS = 2\n")
    settings = (*run.settings, f"user-dir {code.parent} {code_in(str(code.parent))}")
    changes = ("python", "-c", f"open({str(code)!r}, 'w').write('SHARPNESS = 3')")
    train = Step("train", changes, run.folder / "log", done=run.folder / "trained")
    scored = run.folder / "score.txt"
    score = Step("average", ("python", "-c", f"open({str(scored)!r}, 'w')"), run.folder / "log")
    changing = replace(run, settings=settings, steps=(train, score))
    with pytest.raises(UsageError, match=f"user_dir {code.parent} has changed since"):
        Runner("table", (), False, {}).run_all([changing], [{}])
    assert train.done.exists() and not scored.exists()


def test_data_that_changes_while_a_recipe_runs_is_refused(run, tmp_path):
    """Another test set, for example, with the same words."""
    data = str(tmp_path / "data/fold0/input0/test.idx")
    changes = ("python", "-c", f"open({data!r}, 'w').write('other')")
    train = Step("train", changes, run.folder / "log", done=run.folder / "trained")
    scored = run.folder / "score.txt"
    score = Step("average", ("python", "-c", f"open({str(scored)!r}, 'w')"), run.folder / "log")
    with pytest.raises(UsageError, match="was trained on other data than .* has now"):
        Runner("table", (), False, {}).run_all([replace(run, steps=(train, score))], [{}])
    assert train.done.exists() and not scored.exists()


def test_an_error_of_the_program_ends_all_runs(run, tmp_path, monkeypatch):
    started, finished = tmp_path / "started", tmp_path / "finished"
    waits = f"import os, time\nwhile not os.path.exists({str(started)!r}): time.sleep(0.01)"
    works = (
        f"import time; open({str(started)!r}, 'w'); time.sleep(30); open({str(finished)!r}, 'w')"
    )
    steps = (Step("score", ("python", "-c", program)) for program in (waits, works))
    runs = [replace(run, folder=tmp_path / str(n), steps=(step,)) for n, step in enumerate(steps)]

    def record(scored):
        raise RuntimeError("a malformed score")

    monkeypatch.setattr(results, "record", record)
    with pytest.raises(RuntimeError, match="a malformed score"):
        Runner("table", (), False, {}).run_all(runs, [{}, {}])
    assert started.exists() and not finished.exists()


def training_step(run, program="print()"):
    return Step("train", ("python", "-c", program), run.folder / "log", done=run.folder / "done")


def test_a_second_run_of_the_same_model_waits(run, tmp_path, monkeypatch):
    ran, waits = tmp_path / "ran", threading.Event()
    step = training_step(run, f"open({str(ran)!r}, 'w')")
    runner = Runner("table", (), False, {})
    monkeypatch.setattr(runner, "say", lambda line: "waiting" in line and waits.set())
    second = threading.Thread(target=runner.run_all, args=([replace(run, steps=(step,))], [{}]))
    with locked(run.folder / LOCK, run.folder):
        second.start()
        assert waits.wait(60)
        assert not ran.exists()
    second.join(60)
    assert ran.exists()


def test_an_interrupted_copy_of_a_shorter_run_is_made_again(run, tmp_path):
    shorter = tmp_path / "model-50" / "seed1"
    bad = shorter / "checkpoint_best.pt"  # a folder cannot be copied as a file
    bad.mkdir(parents=True)
    replace(run, folder=shorter, settings=(run.settings[0], "train --lr 1 --max-update 50")).start()
    for name in ("checkpoint_last.pt", "checkpoint_1_9.pt"):
        (shorter / name).write_text(name)
    longer = [replace(run, steps=(training_step(run),))]
    with pytest.raises(IsADirectoryError):
        Runner("table", (), False, {}).run_all(longer, [{}])
    bad.rmdir()
    bad.write_text("best")
    Runner("table", (), False, {}).run_all(longer, [{}])
    assert (run.folder / bad.name).read_text() == "best"


@pytest.mark.parametrize("workers", [1, 3, 5, 8, 48, 100])
def test_no_batch_is_larger_and_an_update_hardly_smaller(workers):
    size, frequency, _ = share(12288, 24, workers)
    assert 0 < size <= 12288
    assert 24 * 12288 - workers * frequency < size * frequency * workers <= 24 * 12288


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        ((12288, 24, 8), "(--update-freq) x 12288 tokens = 294912 tokens"),
        ((12288, 24, 5), "= 294900 tokens, not 294912, which cannot be shared evenly"),
        ((2048, 1, 2), "x 1024 tokens = 2048 tokens"),
        ((2048, 1, 4), "more than 512 tokens will stop training; use fewer workers"),
    ],
)
def test_a_shared_update_is_described(arguments, end):
    assert share(*arguments)[2].endswith(end)
