"""Runs a recipe's runs: several at a time, each resumable, all ended together."""

import queue
import shutil
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import locked, write_text
from fairseq_posattn.common.progress import say
from fairseq_posattn.recipes import results
from fairseq_posattn.recipes.processes import Processes, Stopped
from fairseq_posattn.recipes.progress import GenerationProgress, Progress, TrainingProgress
from fairseq_posattn.recipes.runs import LAST, LOCK, Run, Say, Step, length_dependent_schedule
from fairseq_posattn.recipes.tuning import DIVERGED, SIGNS
from fairseq_posattn.training.training_log import warning_of


class Runner:
    """Runs commands, with variables of the environment, and reports their progress."""

    def __init__(
        self, name: str, steps: Sequence[str], averages: bool, environment: Mapping[str, str]
    ) -> None:
        self._name = name  # the recipe's, a prefix of each line
        self._steps = steps  # to run even if they are done; empty for all that are not
        self._averages = averages  # keep all checkpoints of finished runs, not only best and last
        self.processes = Processes(environment)
        self._writing = threading.Lock()
        self._warnings: set[str] = set()  # of all steps, said once each

    def say(self, line: str) -> None:
        with self._writing:
            say(f"{self._name}: {line}")

    def run_step(
        self, step: Step, device: Mapping[str, str], report: Say = lambda line: None
    ) -> None:
        """Show a command and run it; ``report`` is called with each line of its log."""
        with self._writing:
            say(f"+ {step.shown()}")
        self.processes.run(step, device, report)

    def run_all(self, runs: Sequence[Run], devices: Sequence[Mapping[str, str]]) -> None:
        """Run all, as many at a time as there are ``devices``, variables that select a run's GPUs.

        A failed run does not stop the others: a UsageError at the end names all that failed. After
        KeyboardInterrupt all are ended, and finished results stay.
        """
        free: queue.SimpleQueue[Mapping[str, str]] = queue.SimpleQueue()
        for device in devices:
            free.put(device)
        progress = Progress(len(runs))
        failures: list[tuple[str, UsageError]] = []

        def run_numbered(number: int, run: Run) -> None:
            device = free.get()
            try:
                self._run_one(f"{run.name} ({number} of {len(runs)})", run, device, progress)
            except UsageError as error:
                self.say(f"{run.name}: {error}")
                failures.append((run.name, error))
            finally:
                free.put(device)

        with ThreadPoolExecutor(len(devices)) as pool:
            futures = [pool.submit(run_numbered, *numbered) for numbered in enumerate(runs, 1)]
            try:
                for future in as_completed(futures):
                    future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.processes.stop()
                raise
        raise_failures(failures, len(runs))

    def _run_one(self, name: str, run: Run, device: Mapping[str, str], progress: Progress) -> None:
        run.folder.mkdir(parents=True, exist_ok=True)
        with self._locked(name, run.folder):
            run.require_same_data()
            steps = [step for step in run.steps if self._is_wanted(step, run)]
            if not steps:
                progress.advance(took_time=False)
                self.say(f"{name} is finished: {run.folder}")
                return
            self.say(f"{name}: in {run.folder}")
            run.start()
            if any(step.name == "train" for step in steps) and not (run.folder / LAST).exists():
                self._continue_shorter(name, run)
            for step in steps:
                run.require_same_data()
                run.require_same_code()
                if step.needs is not None and not step.needs.exists():
                    before = "train,average" if step.needs.name == "average.pt" else "train"
                    fix = f"remove {run.folder} to train again"  # a finished run without it
                    fix = f"--steps {before} makes it" if self._steps else fix
                    raise UsageError(f"there is no {step.needs}: {fix}")
                if step.name == "generate":
                    run.result.unlink(missing_ok=True)  # of outputs that are now replaced
                self._run_step(name, run, step, device, progress)
                if step.name in ("score", "test"):
                    self.say(f"{name}: {results.record(run)}{progress.left()}")
            if all(step.name != "train" for step in run.steps):
                progress.advance(took_time=False)  # training counts itself
            if not self._averages and run.result.exists():
                _delete(run.folder, "checkpoint_[0-9]*.pt")

    def _locked(self, name: str, folder: Path) -> AbstractContextManager[None]:
        """Return the folder's lock: a second run of the same model waits."""

        def give_up() -> None:
            if self.processes.stopping:
                raise Stopped

        return locked(folder / LOCK, folder, lambda line: self.say(f"{name}: {line}"), give_up)

    def _is_wanted(self, step: Step, run: Run) -> bool:
        done = step.done is not None and step.done.exists()
        if step.name == "measure":
            return not done and step.is_among(self._steps)
        if self._steps and not run.trial:
            return step.is_among(self._steps)
        return not done and not run.result.exists()

    def _continue_shorter(self, name: str, run: Run) -> None:
        """Copy checkpoints and log of the longest run that is this one but for its length.

        A schedule that depends on the length is not continued, because results would differ.
        """
        shorter = [folder for _, folder in run.shorter_runs()]
        if not shorter:
            return
        usable = [folder for folder in shorter if (folder / LAST).exists()]
        schedule = length_dependent_schedule(run.settings)
        if schedule or not usable:
            why = f"--lr-scheduler {schedule} depends on it" if schedule else f"it has no {LAST}"
            self.say(f"{name}: {shorter[-1]} is shorter, but {why}: trains from the beginning")
            return
        folder = usable[-1]
        self.say(f"{name}: continues from {folder / LAST}")
        with self._locked(name, folder):
            # The last checkpoint is copied last: its existence marks the copy as complete.
            checkpoints = sorted(folder.glob("checkpoint*.pt"), key=lambda path: path.name == LAST)
            for path in [*folder.glob("train.log"), *checkpoints]:
                part = run.folder / f"{path.name}.part"
                shutil.copyfile(path, part)
                part.rename(run.folder / path.name)

    def _run_step(
        self, name: str, run: Run, step: Step, device: Mapping[str, str], progress: Progress
    ) -> None:
        self.say(f"{name}: {step.name}")
        training = TrainingProgress(run, progress) if step.name == "train" else None
        reader = training or (GenerationProgress() if step.name == "generate" else None)

        def report(line: str) -> None:
            warning = warning_of(line)
            if warning and warning not in self._warnings and not warning.startswith(run.hidden):
                self._warnings.add(warning)
                self.say(f"{name}: warning: {warning}")
            if reader and (news := reader.read(line)):
                self.say(f"{name}: {news}")

        outcome = ""
        try:
            self.run_step(step, device, report)
        except UsageError:
            log = results.read(step.log) if step.log else ""
            if not run.trial or not any(sign in log for sign in SIGNS):
                raise
            outcome = DIVERGED
        if training:
            training.finish()
            if run.trial:
                _delete(run.folder, "*.pt")
            assert step.done is not None
            write_text(step.done, outcome)


def raise_failures(failures: Sequence[tuple[str, UsageError]], runs: int) -> None:
    """Raise a UsageError with the names of runs that failed and the first one's error, if any."""
    if failures:
        names = "; ".join(name for name, _ in failures)
        count = f"{len(failures)} of {runs} runs failed" if runs > 1 else "failed"
        raise UsageError(f"{names}: {count}: {failures[0][1]}")


def _delete(folder: Path, checkpoints: str) -> None:
    for path in folder.glob(checkpoints):
        path.unlink()
