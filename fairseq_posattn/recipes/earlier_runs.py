"""Runs that were begun before, under another name or to be shorter: nothing is trained twice."""

import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from fairseq_posattn.recipes import prepared_data
from fairseq_posattn.recipes.results import read
from fairseq_posattn.recipes.runs import Run, Say, schedule_to_the_end

LAST = "checkpoint_last.pt"
# Settings at the end that older folders lack: they trained in float16 on a GPU, else in float32.
UNWRITTEN = ("score ", "precision --fp16", "precision --cpu")

Locked = Callable[[Path], AbstractContextManager[None]]


def adopt(run: Run, say: Say) -> None:
    """Take over a run of the same settings from a folder that has another name."""
    if run.folder.exists():
        return
    with suppress(FileNotFoundError):  # where another recipe takes it over at the same time
        for seed, settings in _siblings(run):
            if _are(settings, run.settings):
                say(f"{seed} has these settings: it is now {run.folder}")
                run.folder.parent.mkdir(parents=True, exist_ok=True)
                seed.rename(run.folder)
                return


def go_on(run: Run, say: Say, locked: Locked) -> None:
    """Copy the checkpoints and the log of the longest run that is this one, but shorter.

    Where it would not be as if this one had been trained alone, it is told, and nothing copied.

    Args:
        locked: holds the lock of a run's folder: one that is being trained is waited for.
    """
    ours, length = _without_length(run.settings)
    found = []
    for seed, settings in _siblings(run):
        theirs, shorter = _without_length(settings)
        if _are(theirs, ours) and shorter < length:
            found.append((shorter, seed))
    lasting = [(shorter, seed) for shorter, seed in found if (seed / LAST).exists()]
    schedule = schedule_to_the_end(run.settings)
    if not found:
        return
    if schedule or not lasting:
        why = f"--lr-scheduler {schedule} depends on it" if schedule else f"without its {LAST}"
        say(f"{max(found)[1]} is shorter, but {why}: trains from the beginning")
        return
    _, seed = max(lasting)
    say(f"goes on from {seed / LAST}")
    with locked(seed):
        # The last one last: where it is, all are.
        checkpoints = sorted(seed.glob("checkpoint*.pt"), key=lambda path: path.name == LAST)
        for path in [*seed.glob("train.log"), *checkpoints]:
            shutil.copyfile(path, run.folder / f"{path.name}.part")
            (run.folder / f"{path.name}.part").rename(run.folder / path.name)


def _siblings(run: Run) -> Iterable[tuple[Path, list[str]]]:
    """The other folders of this seed and data, of any row, and their settings."""
    for path in sorted(run.folder.parents[1].glob(f"*/{run.folder.name}/settings")):
        seed, settings = path.parent, [line.rstrip() for line in read(path).splitlines()]
        is_trained = any(line.startswith("train ") for line in settings)
        if seed != run.folder and is_trained and prepared_data.is_same(run, seed):
            yield seed, settings


def _are(theirs: Sequence[str], ours: Sequence[str]) -> bool:
    """Whether a folder's settings are a run's."""
    told, rest = ours[: len(theirs)], ours[len(theirs) :]
    return list(told) == list(theirs) and all(line.startswith(UNWRITTEN) for line in rest)


def _without_length(settings: Sequence[str]) -> tuple[list[str], int]:
    """The settings but for how many updates, or epochs, are trained, and that number."""
    length = re.compile(r"(?<= --max-update )\d+|(?<= --max-epoch )\d+")
    text = "\n".join(settings)
    found = length.search(text)
    return length.sub("", text, count=1).splitlines(), int(found[0]) if found else 0
