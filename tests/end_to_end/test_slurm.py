"""slurm.sh on a real scheduler; its two nodes are on this machine."""

import re
from pathlib import Path

import pytest
import slurm_cluster

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
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
    found = re.findall(r"(Saved|Loaded) checkpoint .*?@ (\d+) updates", log.read_text())
    return [(event, int(updates)) for event, updates in found]


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
    events = checkpoints_of(log)
    place = [event for event, _ in events].index("Loaded")
    *_, (_, last) = events[:place]  # what the job printed before stands before, too
    assert events[place][1] >= last > 0
