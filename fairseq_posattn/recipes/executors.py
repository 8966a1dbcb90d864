"""Runs of a recipe as jobs of Slurm, or as processes that are started like them, by submitit."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.common.files import write_text
from fairseq_posattn.common.progress import python_environment
from fairseq_posattn.recipes.options import Options
from fairseq_posattn.recipes.plan import Plan
from fairseq_posattn.recipes.runner import Runner, raise_failures
from fairseq_posattn.recipes.runs import Run

ID = "job"  # file in a run's folder with the number of its last job, and the job's steps
PAUSE = 5  # seconds between two looks at the queue
MOST = 10_000  # jobs in the queue, and times that a job is requeued when its time is over
# Slurm sends it before a job's time is over to all its processes; it must end none of them.
SIGNAL = "URG"


@dataclass(frozen=True)
class Job:
    """A run in the process of a job; ``arguments`` are those of :class:`.Runner`."""

    arguments: tuple[Any, ...]
    run: Run
    device: Mapping[str, str]  # variables that select its GPUs, which submitit counts from 0

    def __call__(self) -> None:
        """Run it; after SIGTERM wait for Slurm: it requeues no job that ends by itself."""
        received: list[int] = []
        signal.signal(signal.SIGTERM, lambda number, _: received.append(number))
        try:
            Runner(*self.arguments).run_all([self.run], [self.device])
        except UsageError:
            while received and os.environ.get("SUBMITIT_EXECUTOR") == "slurm":
                signal.pause()  # until SIGKILL, at the end of the preempted job's grace time
            raise

    def checkpoint(self) -> Any:
        """Return the job to requeue before its time is over; submitit calls it."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)


def resources(options: Options, gpus: int) -> dict[str, Any]:
    """Return what each job asks for, by submitit's names."""
    wanted: dict[str, Any] = {"timeout_min": options.time, "cpus_per_task": options.cores}
    wanted |= {"gpus_per_node": gpus, "slurm_partition": options.partition}
    return {name: value for name, value in wanted.items() if value}


class JobRunner(Runner):
    """A runner whose runs are jobs; other steps are processes of this machine."""

    def __init__(self, plan: Plan, *arguments: Any) -> None:
        self._arguments = arguments
        super().__init__(*arguments)
        # What jobs inherit.
        os.environ |= {**python_environment(), "SUBMITIT_PREEMPT_SIGNAL": SIGNAL}
        kind = plan.options.executor
        self._is_local = kind == "local"
        self._most = plan.options.jobs if self._is_local else MOST
        try:
            import submitit

            most = {f"{kind}_max_num_timeout": MOST}
            self._executor = submitit.AutoExecutor(plan.out / "jobs", cluster=kind, **most)
        except ImportError:
            fix = "pip install 'fairseq-posattn[slurm]'"
            raise UsageError(f"--executor {kind} needs submitit; {fix}") from None
        except RuntimeError as error:  # there is no Slurm
            raise UsageError(f"--executor {kind}: {in_one_line(error)}") from error
        self._executor.update_parameters(**resources(plan.options, plan.gpus))
        # Else Slurm ends preempted jobs where its configuration has JobRequeue=0.
        self._executor.update_parameters(slurm_additional_parameters={"requeue": True})
        self._jobs: list[tuple[Run, Any, Mapping[str, str]]] = []
        self._others: set[str] = set()  # numbers of earlier commands' jobs that run other steps

    def run_all(self, runs: Sequence[Run], devices: Sequence[Mapping[str, str]]) -> None:
        """Submit all that are neither finished nor in the queue, and wait; fail as Runner does."""
        waiting = list(filter(self._is_unfinished, runs))
        if runs:
            self.say(f"{len(runs) - len(waiting)} of {len(runs)} runs are finished")
        failures: list[tuple[str, UsageError]] = []
        failed: list[Run] = []
        name = "CUDA_VISIBLE_DEVICES"
        visible = {name: os.environ[name]} if name in os.environ else {}
        free: list[Mapping[str, str]] = (
            [{**visible, **device} for device in devices] if self._is_local else []
        )
        try:
            while waiting or self._jobs:
                queue = self._queue()
                for run, job, device in [*self._jobs]:
                    if job.done() if self._is_local else job.job_id not in queue:
                        self._jobs.remove((run, job, device))
                        free.append(device)
                        # NFS shows another node's new file once the folder is read.
                        written = os.listdir(job.paths.folder)
                        if job.job_id in self._others:
                            waiting += filter(self._is_unfinished, [run])
                        elif job.paths.result_pickle.name not in written or job.exception():
                            log, outcome = job.paths.stderr, "ended before it began"  # by scancel
                            if log.name in written:
                                outcome = f"failed; the reason is in {log}"
                            error = UsageError(f"job {job.job_id} {outcome}")
                            failures.append((run.name, error))
                            failed.append(run)
                        self.say(f"{run.name}: job {job.job_id} ended; {len(self._jobs)} are left")
                for run in [*waiting]:  # those before are first
                    before = [*waiting, *(other for other, *_ in self._jobs)]
                    if any(other in failed for other in run.after):
                        failed.append(run)
                        waiting.remove(run)
                    elif len(self._jobs) < self._most and not {*run.after} & {*before}:
                        waiting.remove(run)
                        device = free.pop() if self._is_local else {}
                        self._jobs.append((run, self._submit(run, queue, device), device))
                time.sleep(PAUSE if self._jobs else 0)
        except BaseException:
            if self._is_local:
                for _, job, _ in self._jobs:
                    job.cancel()
            elif self._jobs:
                numbers = " ".join(job.job_id for _, job, _ in self._jobs)
                self.say(f"the jobs go on; scancel {numbers} ends them")
            raise
        raise_failures(failures, len(runs))

    def _is_unfinished(self, run: Run) -> bool:
        return any(self._is_wanted(step, run) for step in run.steps)

    def _queue(self) -> set[str]:
        """Return the numbers of the user's jobs in Slurm's queue."""
        if self._is_local:
            return set()
        words = ["squeue", "--noheader", "--format=%i", f"--user={os.getuid()}"]
        while (listed := subprocess.run(words, capture_output=True, text=True)).returncode:
            self.say(f"waiting for squeue: {listed.stderr.strip()}")
            time.sleep(PAUSE)
        return set(listed.stdout.split())

    def _submit(self, run: Run, queue: set[str], device: Mapping[str, str]) -> Any:
        """Return the run's new job, or the job that an earlier command submitted."""
        written, steps = run.folder / ID, " ".join([*self._steps, *(s.name for s in run.steps)])
        number, *others = written.read_text().split(maxsplit=1) if written.exists() else [""]
        if number in queue:
            job = self._executor._executor.job_class(self._executor.folder, number)
            if [f"{steps}\n"] != others:
                self._others.add(number)
        else:
            self._executor.update_parameters(name=re.sub(r"\W+", "_", run.name))
            try:
                job = self._executor.submit(Job(self._arguments, run, device))
            except RuntimeError as error:  # sbatch refused it
                raise UsageError(f"--executor slurm: {in_one_line(error)}") from error
            job.paths.result_pickle.unlink(missing_ok=True)  # of an earlier job with its number
            run.folder.mkdir(parents=True, exist_ok=True)
            write_text(written, f"{job.job_id} {steps}\n")
        self.say(f"{run.name}: job {job.job_id}, {job.paths.stderr}")
        return job
