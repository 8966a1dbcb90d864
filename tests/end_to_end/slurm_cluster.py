"""A Slurm cluster of two nodes on this machine: a controller and two daemons of its own."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import time

from fairseq_posattn.common.progress import ending_with_this

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch")
# Nodes with names that resolve to this machine; more cores and GPUs than there are, which
# "config_overrides" permits, for the first lines of slurm.sh. Jobs are not requeued by default.
CONFIG = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthInfo=socket={folder}/socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
JobRequeue=0
KillWait=20
SchedulerParameters=sched_interval=1,bf_interval=1
GresTypes=gpu
NodeName=127.0.0.1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=64 Gres=gpu:8
NodeName=127.0.0.2 NodeHostname={host} NodeAddr=127.0.0.2 Port={ports[2]} CPUs=64 Gres=gpu:8
PartitionName=tests Nodes=ALL Default=YES MaxTime=UNLIMITED
"""
PATIENCE = 300  # seconds


def is_possible():
    """Return whether Slurm is here, and may start jobs: its daemons need root."""
    return os.geteuid() == 0 and all(map(shutil.which, PROGRAMS))


def free_ports(count):
    listening = [socket.create_server(("", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in listening]
    for server in listening:
        server.close()
    return ports


class Cluster:
    """Daemons from :meth:`start` to :meth:`close`; ``environment`` is that of their clients."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        host = socket.gethostname().partition(".")[0]
        config = folder / "slurm.conf"
        config.write_text(CONFIG.format(host=host, folder=folder, ports=free_ports(3)))
        for number in range(8):
            (folder / f"gpu{number}").touch()
        (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-7]\n")
        (folder / "key").write_bytes(secrets.token_bytes(128))
        (folder / "key").chmod(0o600)
        (folder / "state").mkdir()
        self.environment = {**os.environ, "SLURM_CONF": str(config)}

    def start(self):
        """Start the daemons and wait for the nodes."""
        names = ("socket", "key-file", "pid-file", "log-file", "seed-file")
        options = [f"--{name}={self.folder / name.removesuffix('-file')}" for name in names]
        self._start("munged", "--foreground", "--force", *options)
        self.wait(lambda: (self.folder / "socket").exists(), "munged")
        self._start("slurmctld", "-D")
        for node in ("127.0.0.1", "127.0.0.2"):
            self._start("slurmd", "-D", "-N", node)
        self.wait(lambda: self.output("sinfo", "-h", "-o%t%D") == "idle2", "nodes")

    def _start(self, *words):
        with open(self.folder / f"{words[0]}{len(self.daemons)}.log", "w") as log:
            streams = {"stdout": log, "stderr": log, "stdin": subprocess.DEVNULL}
            streams["preexec_fn"] = ending_with_this(signal.SIGTERM)
            self.daemons.append(subprocess.Popen(words, env=self.environment, **streams))

    def output(self, *words, check=False):
        """Return what a client prints."""
        finished = subprocess.run(words, env=self.environment, capture_output=True, text=True)
        assert not (check and finished.returncode), finished.stderr
        return finished.stdout.strip()

    def wait(self, is_reached, name, log=None):
        """Wait until ``is_reached()``; fail with the end of its log if it takes too long."""
        deadline = time.monotonic() + PATIENCE
        while not is_reached():
            logs = [log] if log else sorted(self.folder.glob("*.log"))
            shown = "\n".join(path.read_text()[-3000:] for path in logs if path.exists())
            assert time.monotonic() < deadline, f"{name}: not within {PATIENCE} seconds\n{shown}"
            time.sleep(0.2)

    def close(self):
        """Cancel all jobs and end the daemons, munged last."""
        self.output("scancel", "--full", "--signal=KILL", "--user=root")
        self.output("scancel", "--user=root")
        self.wait(lambda: not self.output("squeue", "-h"), "cancelled jobs")
        for daemon in reversed(self.daemons):
            daemon.terminate()
            daemon.wait(PATIENCE)
