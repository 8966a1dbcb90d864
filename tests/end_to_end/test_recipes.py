"""Recipes of translation from the data to the table."""

import fcntl
import gzip
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from forked_recipes import EXAMPLES, measured_rows, table_of
from test_translating import captions

from fairseq_posattn.common import figures
from fairseq_posattn.preparation.commands.prepare import prepare
from fairseq_posattn.recipes import executors
from fairseq_posattn.recipes.bundle import verify
from fairseq_posattn.recipes.papers import RECIPES
from fairseq_posattn.training.training_log import TrainingLog

SETUP1 = "mtsa/table6_setup1"


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    """Return the folder of the generated corpus; the first test that needs it makes it."""
    return tmp_path_factory.mktemp("numbers") / "numbers.en-de"


@pytest.fixture
def setup1(recipe_run, numbers, tmp_path):
    """Run MTSA's setup 1 in its tiny form on the generated corpus."""

    def setup1(*arguments, out=tmp_path, rows="MTSA", **options):
        chosen = ["--rows", rows] if rows else []
        common = ["--tiny", "--data", numbers, "--out", out, *chosen]
        return recipe_run(SETUP1, *common, *arguments, **options)

    return setup1


def only(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


def test_locality_is_measured_in_a_trained_model(recipe_run, tmp_path):
    out, row = tmp_path / "o ut [1]*%s", "DMAN (released form)"
    printed = recipe_run("dman/table5_locality", "--tiny", "--rows", row, "--out", out)
    assert "error" not in printed
    assert "DMAN (released form) (1 of 1): update 4 of 4: validation loss " in printed
    table = json.loads((out / "table5_locality.json").read_text())
    assert table["tiny"]
    rows = {row["row"]: row for row in table["rows"] if row["scores"]}
    for name, row in rows.items():
        assert f"| {name} " in printed
        assert (list(row["scores"]), row["seeds"]) == (list(row["paper"]), [1])
    for name in ("DMAN", "SAN"):  # a wider window holds more
        within = [rows[f"{name} {window}"]["scores"]["layer 1"][0] for window in (1, 2, 4)]
        assert 0 < within[0] < within[1] < within[2] <= 100


def test_first_sentences_are_scored_without_training(recipe_run, tmp_path):
    """Tiny texts are one sentence each, of another language than their summaries."""
    chosen = ["--tiny", "--rows", "LEAD-3", "--out", tmp_path, "--bundle", tmp_path / "lead.tar.gz"]
    printed = recipe_run("dman/cnn_dailymail", *chosen)
    assert verify(chosen[-1]) == 0
    assert "fairseq-train" not in printed
    (row,) = measured_rows(tmp_path / "cnn_dailymail.json")
    assert f"\n{row['metric']}\nData: {row['data']}\n" in printed
    assert (row["row"], list(row["scores"])) == ("LEAD-3", list(row["paper"]))
    assert "|lead:3|" in row["signature"] and "parameters" not in row


def test_finished_rows_are_not_trained_again_and_continue(setup1, tmp_path, monkeypatch):
    """With more updates the result is that of a longer training; the shorter run stays."""
    first = setup1("--jobs", 2, rows="")
    assert "Transformer (1 of 2): train" in first and "MTSA (2 of 2): train" in first
    assert "MTSA (2 of 2): batch 3 of 3\n" in first
    drawn = tmp_path / "table6_setup1-curves.png"
    assert f"learning curves: {drawn}\n" in first
    drawn.unlink()
    monkeypatch.setattr(figures, "find_spec", lambda name: None)
    second = setup1(rows="")
    assert "no figures: pictures need matplotlib: pip install" in second
    assert not drawn.exists()
    assert second.count("is finished") == 2
    assert "fairseq-train" not in second
    assert table_of(first) == table_of(second) == table_of(setup1("--table", rows=""))

    runs, other = "mtsa*/seed1/result.json", tmp_path / "other"
    shorter = only(tmp_path, runs)
    printed = setup1("--max-update", 6)
    assert f"continues from {shorter.with_name('checkpoint_last.pt')}" in printed
    setup1("--max-update", 6, out=other)
    (longer,) = [path for path in tmp_path.glob(runs) if path != shorter]
    paths = (longer, only(other, runs))
    results = [json.loads(path.read_text()) for path in paths]
    assert results[0]["scores"] == results[1]["scores"]
    assert [result["updates"] for result in results] == [6, 6]
    curves = [TrainingLog(path.with_name("train.log")).points("loss", "valid") for path in paths]
    assert curves[0] == curves[1] and len(curves[0]) > 1
    assert json.loads(shorter.read_text())["updates"] == 4


class JobsHere:
    """submitit's executor, whose jobs end in this process before ``submit`` returns."""

    def __init__(self, folder, **options):
        self.folder = folder

    def update_parameters(self, **settings):
        pass

    def submit(self, job):
        job()
        written = Path(self.folder, "1_result.pkl")
        written.parent.mkdir(parents=True, exist_ok=True)
        written.touch()
        kept = SimpleNamespace(name=written.name, unlink=Mock())  # an earlier job's is removed
        paths = SimpleNamespace(folder=written.parent, result_pickle=kept, stderr=written)
        return Mock(job_id="1", paths=paths, **{"exception.return_value": None})


def test_single_steps_and_a_test_set_in_shards_make_the_same_result(setup1, tmp_path, monkeypatch):
    """Jobs of submitit are in test_slurm.py.

    An NFS client turns flock into a lock of fcntl, which a run and its training cannot share.
    """
    monkeypatch.setattr(fcntl, "flock", fcntl.lockf)
    monkeypatch.setitem(sys.modules, "submitit", SimpleNamespace(AutoExecutor=JobsHere))
    monkeypatch.setattr(executors, "PAUSE", 0)
    too_soon = setup1("--steps", "generate", refused=True)
    assert "checkpoint_last.pt" in too_soon and "--steps train" in too_soon
    for step, made in (
        ("train", "checkpoint_last.pt"),
        ("generate", "generate-test.txt"),
        ("score", "result.json"),
    ):
        assert list(tmp_path.glob(f"*/seed1/{made}")) == []
        setup1("--steps", step)
        only(tmp_path, f"*/seed1/{made}")
    assert "is finished" in setup1()
    folder = only(tmp_path, "*/seed1")

    def measured():
        hypotheses = re.findall("^H-.*", (folder / "generate-test.txt").read_text(), re.MULTILINE)
        scores = [json.loads((folder / f"{name}.json").read_text()) for name in ("score", "result")]
        return hypotheses, scores[0], scores[1]["scores"], scores[1]["commands"][0]

    hypotheses, *whole = measured()
    for name in ("generate-test.txt", "score.json", "result.json", "statistics.json"):
        (folder / name).unlink()
    jobs = ["--shards", 2, "--executor", "local", "--jobs", 2]
    setup1("--steps", "generate", *jobs)
    parts = list(folder.glob("shard?of2/generate-test.txt"))
    assert [1 <= path.read_text().count("\nH-") < len(hypotheses) for path in parts] == [True] * 2
    parts[0].with_name("generate.log").unlink()  # as if interrupted
    printed = setup1(*jobs)
    assert "2 of 4 runs are finished" in printed
    merged, *scored = measured()
    assert merged == sorted(hypotheses, key=lambda line: int(line[2:].split()[0]))
    assert scored == whole
    assert "Generate test" not in (folder / "generate-test.txt").read_text()


def test_an_interrupted_run_resumes(recipe_run, tmp_path):
    arguments = ["dman/iwslt14", "--tiny", "--rows", "DMAN (released form)", "--out", tmp_path]
    arguments += ["--checkpoint", "average"]
    recipe_run(*arguments)
    folder = only(tmp_path, "*/seed1")
    uninterrupted = json.loads((folder / "result.json").read_text())
    for name in ("result.json", "average.pt", "trained", "checkpoint_2_4.pt"):
        (folder / name).unlink()
    shutil.copy(folder / "checkpoint_1_2.pt", folder / "checkpoint_last.pt")
    (folder / "generate-test.txt").write_text("half of the tran")

    recipe_run(*arguments)
    log = (folder / "train.log").read_text()
    assert "@ 2 updates" in log.rpartition("Loaded checkpoint")[2]
    resumed = json.loads((folder / "result.json").read_text())
    elsewhere = {"versions": None, "date": None, "hours": None}
    assert {**resumed, **elsewhere} == {**uninterrupted, **elsewhere}


def test_a_row_trains_with_the_selected_rate(setup1, tmp_path):
    """All seeds do; trials are not repeated, and their checkpoints are deleted.

    Another seed and another rate add a training each.
    """
    tune = ["--tune-updates", 3, "--tune"]
    printed = setup1(*tune, "1e-5,1e-1,1e30", "--parallel", 2)
    (row,) = measured_rows(tmp_path / "table6_setup1.json")
    tuning = row["tuning"]
    losses = {}
    for log in tmp_path.glob("tuning/*/seed1/train.log"):
        rate = re.search(r"-([\d.]+(?:e[-+]\d+)?)-\w+$", log.parents[1].name)
        updates, losses[rate[1]] = TrainingLog(log).points("loss", "valid")[-1]
        assert updates == 3 or rate[1] == "1e+30"
    assert losses["1e-05"] > losses["0.1"]
    assert tuning["tried"] == {**losses, "1e+30": None}
    assert (tuning["chosen"], tuning["updates"]) == (0.1, 3)
    written = only(tmp_path, "*/tuning.json")
    assert json.loads(written.read_text()) == tuning
    assert " --lr 0.1 " in (written.parent / "seed1" / "settings").read_text()
    assert "| 0.1 |" in re.sub(" +", " ", printed)
    assert "by lowest validation loss after 3 updates (seed 1)\n" in printed
    assert list(tmp_path.glob("tuning/**/*.pt")) == []
    assert row["command"].endswith(" --tune 1e-05,0.1,1e+30 --tune-updates 3")

    again = setup1(*tune, "1e-5,1e-1,1e30,2e-5", "--seed", 2)
    assert again.count("+ fairseq-train") == 2
    assert {path.name for path in written.parent.iterdir()} == {"seed1", "seed2", "tuning.json"}
    assert len([*tmp_path.glob("tuning/*/seed1/train.log")]) == 4


@pytest.mark.parametrize(
    "recipe, missing, command",
    [
        ("dman/iwslt14|--gpus|0", "{} has no dict.de.txt", "translation iwslt14 --dest '{}'"),
        (
            "mpsan/table1_sst|--cpu",
            "{}/sst5/input0 has no test.idx",
            "classification sst5 --glove 6B.300d --dest '{}/sst5' --weighted-phrases",
        ),
    ],
)
def test_missing_data_is_named_with_its_command(recipe_run, tmp_path, recipe, missing, command):
    data = tmp_path / "no data"
    options = ["--data", data, "--out", tmp_path / "out"]
    error = recipe_run(*recipe.split("|"), *options, refused=True)
    assert missing.format(data) in error and f"posattn prepare {command.format(data)}" in error
    assert list(tmp_path.iterdir()) == []


STUBBORN = """#!/bin/sh
trap 'echo saved; echo saved >"{folder}/saved"; exit 0' TERM
echo ready >"{folder}/ready"
while :; do sleep 0.1; done
"""


@pytest.fixture
def stubborn(setup1, numbers, tmp_path):
    """Start a recipe whose second seed is in training, and saves before it ends."""
    if not numbers.exists():
        setup1()  # makes the corpus
    launcher = tmp_path / "launcher"
    launcher.write_text(STUBBORN.format(folder=tmp_path))
    launcher.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-m", "fairseq_posattn.cli", "recipe", SETUP1, "--tiny"]
        + ["--data", numbers, "--out", tmp_path, "--seed", "2", "--launcher", launcher],
        env={**os.environ, "PYTHONPATH": str(EXAMPLES.parent)},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "ready").exists():
        assert process.poll() is None
        time.sleep(0.05)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_commands_of_a_recipe(stubborn, tmp_path, number):
    """The commands save and nothing more is started, even if the recipe is killed."""
    stubborn.send_signal(number)
    _, printed = stubborn.communicate(timeout=60)
    deadline = time.monotonic() + 60
    while not (tmp_path / "saved").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert only(tmp_path, "*/seed2/train.log").read_text().endswith("saved\n")
    if number != signal.SIGKILL:
        assert stubborn.returncode == 130
        assert printed.splitlines()[-1].endswith("the same command continues from here")
    assert "MTSA (2 of 2): train" not in printed


def write_archives(folder):
    """Write the six published files."""
    folder.mkdir()
    pairs = itertools.cycle(captions())
    for name, size in (("train", 400), ("val", 20), ("test_2016_flickr", 20)):
        sides = zip(*itertools.islice(pairs, size), strict=True)
        for language, lines in zip(("de", "en"), sides, strict=True):
            text = "".join(f"{line}\n" for line in lines)
            (folder / f"{name}.{language}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return folder


def test_multi30k_from_archives_to_a_score(recipe_run, tmp_path):
    folder = tmp_path / "with a space"
    small = ["--small", "--data", folder / "data", "--out", folder / "out"]
    lines = recipe_run("multi30k/run", *small, "--dry-run").splitlines()
    programs = [line.split()[:2] for line in lines if line.startswith(("fairseq-", "posattn "))]
    row = ["fairseq-train", "average", "fairseq-generate", "score"]
    names = [words[0] if words[0] != "posattn" else words[1] for words in programs]
    assert names == ["prepare", *row, *row, *row]
    assert not folder.exists()

    sizes = " ".join(f"--{side}-layers 1 --{side}-embed-dim 16" for side in ("encoder", "decoder"))
    flags = f"{sizes} --max-tokens 400 --num-workers 0"
    source = write_archives(tmp_path / "published")
    arguments = ["--source", source, "--rows", "DMAN", "--gpus", "0", "--max-update", "5"]
    printed = recipe_run("multi30k/run", *small, *arguments, "--", *flags.split())
    assert "| DMAN " in printed and f"\nFurther flags of all rows: {flags}\n" in printed

    text = (folder / "data" / "text" / "train.de").read_text(encoding="utf-8").splitlines()
    assert text[0] == "ein mann sieht einen ball , dann noch mehr ."
    rows = json.loads((folder / "out" / "run.json").read_text())["rows"]
    (dman,) = (row for row in rows if row.get("seeds"))
    assert (dman["row"], dman["table"].split(",")[0]) == ("DMAN", "First models")
    assert dman["command"].endswith(f" multi30k/run --small --max-update 5 -- {flags}")
    assert (dman["seeds"], dman["updates"]) == ([1], 5)
    assert dman["note"].endswith(flags)
    assert dman["data"] == "multi30k-4000, --data data, 20 sentences of the test set"
    assert "tok:none" in dman["signature"]
    assert 0 <= dman["scores"]["bleu"][0] <= 100
    (stored,) = (folder / "out").glob("*/seed1/statistics.json")
    statistics = json.loads(stored.read_text())["metrics"]
    counts = {name: len(sentences) for name, sentences in statistics.items()}
    assert counts == dict.fromkeys(("bleu", "chrf2", "ter"), 20)


def test_a_recipe_leaves_another_prepared_corpus_as_it_is(recipe_run, tmp_path):
    mine, source = tmp_path / "mine", write_archives(tmp_path / "published")
    sides = [tmp_path / f"c.{language}" for language in ("cs", "fr")]
    for side, word in zip(sides, ("Dva", "Deux"), strict=True):
        side.write_text("".join(f"{word} {number}\n" for number in range(60)))
    words = ["own", "--train", *sides, "--test", 5, "--subwords", "none", "--dest", mine]
    assert prepare("translation", list(map(str, words))) == 0
    before = {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()}
    arguments = ["multi30k/mechanisms", "--small", "--data", mine, "--out", tmp_path / "out"]
    for options in (["--source", source], []):
        printed = recipe_run(*arguments, *options, refused=True)
        assert f"--dest {mine}: holds another corpus (own, translation, cs, fr, " in printed
    assert {path: path.read_bytes() for path in mine.rglob("*") if path.is_file()} == before
    assert not (tmp_path / "out").exists()


def test_every_recipe_has_a_short_script():
    for name in RECIPES:
        assert f'/recipe.sh" {name} "$@"' in (EXAMPLES / f"{name}.sh").read_text()
    lengths = {path: len(path.read_text().splitlines()) for path in EXAMPLES.rglob("*.sh")}
    long = {path.name for path, length in lengths.items() if length > 40}
    assert long <= {"run.sh"}  # of the quickstart


@pytest.mark.parametrize("row, exit_code", [("C#1 (paper form)", 0), ("C#9", 1)])
def test_a_script_runs_its_recipe_in_the_checkout(tmp_path, row, exit_code):
    script = EXAMPLES / "dman" / "table3_sublayers.sh"
    finished = subprocess.run(
        ["bash", script, "--dry-run", "--rows", row],
        cwd=tmp_path,
        env={"POSATTN_ENV": sys.prefix, **os.environ, "PIP_NO_INDEX": "1"},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == exit_code, finished.stderr
    assert list(tmp_path.iterdir()) == []
    if exit_code:
        error = "table3_sublayers: error: --rows C#9: there is no row 'C#9'"
        assert finished.stderr.startswith(error) and finished.stderr.count("\n") == 1
        return
    data, plugin = (EXAMPLES.parent / name for name in ("data-bin/iwslt14", "fairseq_posattn"))
    assert f"fairseq-train {data} --user-dir {plugin} " in finished.stdout
