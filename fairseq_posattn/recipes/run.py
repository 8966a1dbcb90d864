"""Runs the runs of a recipe: several at a time, each resumable, all ended together."""

import queue
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_text
from fairseq_posattn.common.locking import locked
from fairseq_posattn.recipes import prepared_data, results
from fairseq_posattn.recipes.earlier_runs import adopt, go_on
from fairseq_posattn.recipes.processes import Processes, Stopped
from fairseq_posattn.recipes.progress import GenerationProgress, Progress
from fairseq_posattn.recipes.runs import Run, Say, Step
from fairseq_posattn.recipes.tuning import DIVERGED, has_diverged


class Runner:
    """Runs commands and tells of them.

    Args:
        name: the recipe's, which begins each line.
        steps: those to do, even if they are done already; none: all that are not.
        averages: of a finished run all checkpoints stay, not just the best and the last.
        environment: variables for all commands.
    """

    def __init__(
        self, name: str, steps: Sequence[str], averages: bool, environment: Mapping[str, str]
    ) -> None:
        self._name = name
        self._steps = steps
        self._averages = averages
        self._processes = Processes(environment)
        self._writing = threading.Lock()

    def say(self, line: str) -> None:
        """Tell a person, on standard error."""
        with self._writing:
            print(f"{self._name}: {line}", file=sys.stderr, flush=True)

    def stop(self) -> None:
        """End all that is running."""
        self._processes.stop()

    def run_step(
        self, step: Step, device: Mapping[str, str], tell: Say = lambda line: None
    ) -> None:
        """Show a command and run it; ``tell`` is called with each line of its log."""
        with self._writing:
            print(f"+ {step.shown()}", file=sys.stderr, flush=True)
        self._processes.run(step, device, tell)

    def run_all(self, runs: Sequence[Run], devices: Sequence[Mapping[str, str]]) -> None:
        """Run them, as many at a time as there are ``devices``.

        After a failure none is begun any more, and those at work are finished.

        Args:
            devices: variables that say on which GPUs a run trains.

        Raises:
            UsageError: a run failed.
            KeyboardInterrupt: all were ended; what is finished stays.
        """
        free: queue.SimpleQueue[Mapping[str, str]] = queue.SimpleQueue()
        for device in devices:
            free.put(device)
        progress = Progress(len(runs))

        def run_one(number: int, run: Run) -> None:
            device = free.get()
            try:
                self._run_one(f"{run.name} ({number} of {len(runs)})", run, device, progress)
            finally:
                free.put(device)

        with ThreadPoolExecutor(len(devices)) as pool:
            futures = [pool.submit(run_one, *numbered) for numbered in enumerate(runs, 1)]
            try:
                _wait(futures)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self.stop()
                raise

    def _run_one(self, name: str, run: Run, device: Mapping[str, str], progress: Progress) -> None:
        adopt(run, self.say)
        run.folder.mkdir(parents=True, exist_ok=True)
        with self._locked(name, run.folder):
            prepared_data.require_same(run)
            wanted = [step for step in run.steps if self._is_wanted(step, run)]
            if not wanted:
                progress.skip()
                self.say(f"{name} is finished: {run.folder}")
                return
            self.say(f"{name}: in {run.folder}")
            self._begin(name, run, trains=any(step.name == "train" for step in wanted))
            for step in wanted:
                if step.needs is not None and not step.needs.exists():
                    before = "train,average" if step.needs.name == "average.pt" else "train"
                    raise UsageError(f"there is no {step.needs} yet: --steps {before} makes it")
                self._run_step(name, run, step, device, progress)
                if step.name in ("score", "test"):
                    self.say(f"{name}: {results.record(run)}{progress.left()}")
            if all(step.name != "train" for step in run.steps):
                progress.skip()  # training tells its own progress
            if not self._averages and run.result.exists():
                _forget(run.folder, "checkpoint_[0-9]*.pt")  # there are many runs

    def _locked(self, name: str, folder: Path) -> AbstractContextManager[None]:
        """The folder's lock: of two runs of one model the second waits."""

        def tell(text: str) -> None:
            self.say(f"{name}: {text}")

        def meanwhile() -> None:
            if self._processes.stopping:
                raise Stopped

        return locked(folder / ".lock", folder, tell, meanwhile)

    def _is_wanted(self, step: Step, run: Run) -> bool:
        done = step.done is not None and step.done.exists()
        if step.name == "measure":
            return not done and step.is_among(self._steps)
        if self._steps and not run.trial:
            return step.is_among(self._steps)
        return not done and not run.result.exists()

    def _begin(self, name: str, run: Run, trains: bool) -> None:
        settings = run.folder / "settings"
        if not settings.exists():
            prepared_data.keep(run)
            write_text(settings, "".join(f"{line}\n" for line in run.settings))
        if trains and not (run.folder / "checkpoint_last.pt").exists():
            go_on(run, self.say, partial(self._locked, name))

    def _run_step(
        self, name: str, run: Run, step: Step, device: Mapping[str, str], progress: Progress
    ) -> None:
        self.say(f"{name}: {step.name}")
        training = progress.training(run) if step.name == "train" else None
        reader = training or (GenerationProgress() if step.name == "generate" else None)

        def tell(line: str) -> None:
            if reader and (told := reader.read(line)):
                self.say(f"{name}: {told}")

        outcome = ""
        try:
            self.run_step(step, device, tell)
        except UsageError:
            if not (run.trial and step.log and has_diverged(results.read(step.log))):
                raise
            outcome = DIVERGED
        if training:
            training.finish()
            if run.trial:
                _forget(run.folder, "*.pt")
            assert step.done is not None
            write_text(step.done, outcome)


def _wait(futures: Sequence["Future[None]"]) -> None:
    """Until all are done; raises what one of them raised, after those at work are done."""
    _, pending = wait(futures, return_when=FIRST_EXCEPTION)
    for future in pending:
        future.cancel()
    wait(futures)
    failed = [future.exception() for future in futures if not future.cancelled()]
    for error in failed:
        if error is not None and not isinstance(error, Stopped):
            raise error


def _forget(folder: Path, checkpoints: str) -> None:
    for path in folder.glob(checkpoints):
        path.unlink()
