"""Trains on all GPUs of a Slurm job: one torchrun on each of its machines.

    sbatch --nodes 2 --gpus-per-node 8 --cpus-per-task 32 {command} DATA FLAGS...

from the checkout's folder, with options of sbatch as your cluster wants them (--partition, --time,
...). DATA and FLAGS are those of fairseq-train on one GPU, and may be preceded by the options of
torchrun.sh, such as --fully-sharded; torchrun.sh --help explains what becomes of them. In a job
that is running already, bash {command} DATA FLAGS... does the same.

The checkpoints must lie where all machines see them. A job that is requeued, or submitted again,
goes on from the last one.

    --dry-run        as the first word, in a job or outside: print the exact command and stop
    --help           this text
"""

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence

from fairseq_posattn.common.errors import UsageError


def main(arguments: Sequence[str], command: str, torchrun: Sequence[str]) -> int:
    """Train as the command line asks; returns the exit status.

    Args:
        command: what is typed for this, for ``--help``.
        torchrun: the words that start :mod:`torchrun` on a machine.

    Raises:
        UsageError: this is no Slurm job.
    """
    if arguments[:1] in (["--help"], ["-h"]):
        print(str(__doc__).format(command=command).strip())
        return 0
    job: Mapping[str, str] = os.environ
    dry_run = arguments[:1] == ["--dry-run"]
    if dry_run:
        arguments = arguments[1:]
        given = {name: value for name, value in os.environ.items() if value}
        job = {"SLURM_JOB_ID": "JOB", "SLURM_NNODES": "NODES", **given}
    if not job.get("SLURM_JOB_ID"):
        raise UsageError(
            f"this is no Slurm job: sbatch {command} DATA FLAGS..., or torchrun.sh where there is "
            "no Slurm"
        )
    words = [*_srun(job), *torchrun, "--nodes", job["SLURM_NNODES"]]
    words += ["--rendezvous", _rendezvous(job), "--job", job["SLURM_JOB_ID"], *arguments]
    if dry_run:
        print(shlex.join(words))
        return 0
    os.execvp(words[0], words)


def _srun(job: Mapping[str, str]) -> list[str]:
    """A task on each machine of the job; one that fails ends all."""
    nodes = job["SLURM_NNODES"]
    words = ["srun", "--nodes", nodes, "--ntasks", nodes, "--ntasks-per-node", "1"]
    cores = job.get("SLURM_CPUS_PER_TASK")
    return [*words, "--kill-on-bad-exit=1", *(["--cpus-per-task", cores] if cores else [])]


def _rendezvous(job: Mapping[str, str]) -> str:
    """The first machine, and a port that two jobs there do not share."""
    if not job.get("SLURM_JOB_NODELIST"):
        return "FIRST_NODE:PORT"
    command = ["scontrol", "show", "hostnames", job["SLURM_JOB_NODELIST"]]
    hosts = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return f"{hosts[0]}:{20000 + int(job['SLURM_JOB_ID']) % 20000}"
