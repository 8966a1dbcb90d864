"""slurm.sh and recipes' jobs on a real scheduler, whose two nodes are on this machine."""

import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import slurm_cluster

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes import executors
from fairseq_posattn.recipes.commands.recipe import find, main, make_plan

ROOT = Path(__file__).parents[2]
needs_slurm = pytest.mark.skipif(
    not slurm_cluster.is_possible(), reason="no Slurm here, or not root; see CONTRIBUTING.md"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    cluster = slurm_cluster.Cluster(tmp_path_factory.mktemp("slurm"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def checkpoints_of(log):
    """Return the checkpoints that training wrote and resumed from: "Saved" or "Loaded", updates."""
    events = re.findall(r"(Saved|Loaded) checkpoint .*?@ (\d+) updates", log.read_text())
    return [(event, int(updates)) for event, updates in events]


@needs_slurm
def test_a_requeued_job_on_two_nodes_resumes(cluster, train_arguments, tmp_path, monkeypatch):
    """The first lines of slurm.sh hold as they are: 8 GPUs and 32 cores of each node."""
    monkeypatch.chdir(ROOT)
    log = tmp_path / "log"
    flags = [*train_arguments, "--update-freq", "4", "--save-interval-updates", "1"]
    flags += ["--max-update", "1000000", "--save-dir", str(tmp_path / "saved")]
    script = ["examples/distributed/slurm.sh", "--workers", "1", *flags]
    job = cluster.output("sbatch", "--parsable", f"--output={log}", *script, check=True)

    def reaches(event):
        return lambda: log.exists() and event in dict(checkpoints_of(log))

    cluster.wait(reaches("Saved"), "a first checkpoint", log)
    assert cluster.output("squeue", "-h", "-o%D %b", "-j", job) == "2 gres:gpu:8"
    assert "2 worker(s) x 2 batch(es) (--update-freq) x 100 tokens" in log.read_text()
    cluster.output("scontrol", "requeue", job, check=True)
    cluster.wait(reaches("Loaded"), "the requeued job", log)
    cluster.output("scancel", job, check=True)
    events = checkpoints_of(log)
    index = [event for event, _ in events].index("Loaded")
    *_, (_, last) = events[:index]  # what the job printed before stands before, too
    assert events[index][1] >= last > 0


# Replaces fairseq-train: the first call of a run waits to be interrupted, the second ends.
TRAINING = """#!/bin/sh
for last do case "$previous" in --save-dir) folder=$last ;; esac; previous=$last; done
echo "$CUDA_VISIBLE_DEVICES" > "$folder/gpus"
case "$*" in *"--seed 3 "*) echo "loss is NaN"; exit 1 ;; esac
[ -e "$folder/called" ] || [ "$WAITS" = no ] || { touch "$folder/called"; sleep 1000; }
"""


@pytest.fixture
def words(corpus, write, tmp_path):
    """Return the words of a recipe's command whose training is a script."""
    pytest.importorskip("submitit")
    launcher = Path(write("training", TRAINING))
    launcher.chmod(0o755)
    common = f"--tiny --rows Transformer --steps train --data {corpus} --out {tmp_path / 'out'}"
    with mock.patch.dict(os.environ):  # the command changes what jobs inherit
        yield ["dman/iwslt14", *common.split(), "--launcher", str(launcher)]


def test_local_jobs_train_and_a_failed_job_is_named(words, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("WAITS", "no")
    monkeypatch.setattr(executors, "PAUSE", 0.2)
    with pytest.raises(UsageError) as error:
        main([*words, "--seeds", "3", "--executor", "local", "--jobs", "2"])
    name, reason = "Transformer, seed 3: 1 of 3 runs failed", "failed; the reason is in "
    assert str(error.value).startswith(name) and reason in str(error.value)
    log = Path(str(error.value).split(reason)[1])
    assert "seed 3: train failed: loss is NaN" in log.read_text()
    assert len(list(tmp_path.glob("out/*/seed*/trained"))) == 2
    assert "no finished run\n" in capsys.readouterr().out


@pytest.mark.parametrize("devices", [[{}], [{"CUDA_VISIBLE_DEVICES": "5"}, {}]])
def test_local_jobs_have_the_gpus_that_recipes_give_them(words, devices, tmp_path, monkeypatch):
    """submitit gives each job the first ones, whatever others and the user's variable take."""
    monkeypatch.setenv("WAITS", "no")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setattr(executors, "PAUSE", 0.2)
    name, *options = [*words, "--executor", "local", "--jobs", str(len(devices))]
    plan = make_plan(find(name), [*options, "--seeds", "2"], "", Path())
    executors.JobRunner(plan, "recipe", ("train",), False, {}).run_all(plan.runs(), devices)
    seen = [path.read_text() for path in tmp_path.glob("out/*/seed*/gpus")]
    assert sorted(seen) == (["3\n", "3\n"] if len(devices) == 1 else ["3\n", "5\n"])


def test_a_killed_job_is_not_taken_for_an_earlier_one_of_its_number(words, tmp_path, monkeypatch):
    """The number is that of a process: in a container it soon returns."""
    monkeypatch.setenv("WAITS", "no")
    monkeypatch.setattr(executors, "PAUSE", 0.2)
    local = pytest.importorskip("submitit.local.local")
    start = local.start_controller

    def start_after_another(folder, **options):
        process = start(folder=folder, **options)
        (Path(folder) / f"{process.pid}_0_result.pkl").write_bytes(pickle.dumps(("success", None)))
        process.kill()
        return process

    monkeypatch.setattr(local, "start_controller", start_after_another)
    with pytest.raises(UsageError, match="Transformer: failed: job [0-9]+ ended before it began"):
        main([*words, "--seed", "2", "--executor", "local"])


@pytest.mark.parametrize("written", ["1\n", "1 average train average generate score\n"])
def test_an_earlier_job_of_other_steps_is_not_all_of_a_run(words, written, monkeypatch):
    """Such as that of --steps train, or of the training alone with --shards."""
    monkeypatch.setenv("WAITS", "no")
    monkeypatch.setattr(executors, "PAUSE", 0.2)
    queue = [{"1"}]
    monkeypatch.setattr(executors.JobRunner, "_queue", lambda self: queue.pop() if queue else set())
    name, *options = [*words, "--seed", "2", "--executor", "local"]
    plan = make_plan(find(name), options, "", Path())
    (run,) = plan.runs()
    run.folder.mkdir(parents=True)
    (run.folder / executors.ID).write_text(written)
    (plan.out / "jobs").mkdir()
    (plan.out / "jobs" / "1_0_result.pkl").write_bytes(pickle.dumps(("success", None)))
    executors.JobRunner(plan, "recipe", ("train",), False, {}).run_all([run], [{}])
    assert (run.folder / "trained").exists()


def test_results_that_nfs_does_not_show_at_once_are_no_failures(words, monkeypatch):
    """A client remembers that there is no such file until it reads the folder again."""
    monkeypatch.setenv("WAITS", "no")
    monkeypatch.setattr(executors, "PAUSE", 0.2)
    exists, listdir, listed = Path.exists, os.listdir, []

    def is_shown(path, **how):
        return exists(path, **how) and ("_result." not in path.name or path.parent in listed)

    monkeypatch.setattr(os, "listdir", lambda folder: listed.append(folder) or listdir(folder))
    monkeypatch.setattr(Path, "exists", is_shown)
    assert main([*words, "--seed", "2", "--executor", "local"]) == 0


def test_a_preempted_job_does_not_end_before_slurm_requeues_it(words, monkeypatch):
    """Slurm sends SIGTERM to all processes, and requeues the job after its grace time."""

    class Waiting(BaseException):
        pass

    monkeypatch.setattr(signal, "pause", mock.Mock(side_effect=Waiting))
    monkeypatch.setenv("SUBMITIT_EXECUTOR", "slurm")
    name, *options = words
    (run,) = make_plan(find(name), [*options, "--seed", "2"], "", Path()).runs()
    job, launcher = executors.Job(("recipe", ("train",), False, {}), run, {}), Path(words[-1])
    before = signal.getsignal(signal.SIGTERM)
    try:
        for line, error in (("", UsageError), ("kill -TERM $PPID", Waiting)):
            launcher.write_text(f"#!/bin/sh\n{line}\nexit 143\n")
            with pytest.raises(error):
                job()
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_failed_job_is_the_last_of_its_run(words, tmp_path, monkeypatch):
    monkeypatch.setattr(executors, "PAUSE", 0.2)
    words = [*words, "--seed", "3", "--steps", "train,generate,score", "--shards", "2"]
    with pytest.raises(UsageError, match="needs --executor"):
        main(words)
    with pytest.raises(UsageError, match="Transformer: 1 of 4 runs failed"):
        main([*words, "--executor", "local", "--jobs", "4"])
    assert len(list(tmp_path.glob("out/jobs/*.out"))) == 1


def test_a_missing_slurm_or_submitit_is_one_line(words, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UsageError, match='--executor slurm: .* not detect "srun"'):
        main([*words, "--executor", "slurm"])
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UsageError, match="--executor slurm needs submitit; pip install 'fairseq-"):
        main([*words, "--executor", "slurm"])


@needs_slurm
def test_jobs_outlive_the_command_and_are_requeued(cluster, words, tmp_path, monkeypatch):
    """The same command waits for the job, which Slurm's signal before its end has requeued."""
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("LOGNAME", "nobody")  # as after `sudo -E`: jobs are of the user's number
    words += ["--seed", "2", "--executor", "slurm", "--cores", "2", "--partition"]
    with pytest.raises(UsageError, match="--executor slurm: .*invalid partition specified"):
        main([*words, "unknown"])

    def start():
        command = [sys.executable, "-m", "fairseq_posattn.cli", "recipe", *words, "tests"]
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(command, **streams)

    first = start()
    cluster.wait(lambda: any(tmp_path.glob("out/*/seed2/called")), "the job")
    job = cluster.output("squeue", "-h", "-o%i", "--name=Transformer")
    first.send_signal(signal.SIGINT)
    _, printed = first.communicate()
    assert f"the jobs go on; scancel {job} ends them" in printed, printed
    assert cluster.output("squeue", "-h", "-o%P %C", "-j", job) == "tests 2"

    second = start()
    cluster.output("scancel", f"--signal={executors.SIGNAL}", job, check=True)
    _, printed = second.communicate()
    assert second.returncode == 0, printed
    assert f"job {job} ended; 0 are left" in printed
    (log,) = tmp_path.glob("out/jobs/*.out")  # of the only job
    # The requeue may end scontrol, so that submitit does not print that it succeeded.
    assert log.read_text().count("Starting with JobEnvironment") == 2
