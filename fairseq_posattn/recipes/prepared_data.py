"""Which data a run was begun with: what is prepared anew at the same place is other data."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import write_text
from fairseq_posattn.recipes.runs import Run

KEPT = "data-fingerprint"  # in a run's folder; runs of before have none
VECTORS = "glove.txt"  # of words, beside what is binarised


def keep(run: Run) -> None:
    """Keep which data there is, for a run that begins."""
    write_text(run.folder / KEPT, _fingerprint(run))


def require_same(run: Run) -> None:
    """Raise UsageError if a run's data was replaced since the run was begun."""
    if not is_same(run, run.folder):
        raise UsageError(
            f"{run.folder} was begun with other data than there is in {run.values['data']} now: "
            "give another --out, or remove that folder"
        )


def is_same(run: Run, folder: Path) -> bool:
    """Whether the run of a folder, as far as it kept that, has the data that this one finds."""
    kept = folder / KEPT
    return not kept.exists() or kept.read_text() == _fingerprint(run)


def _fingerprint(run: Run) -> str:
    """Of the words in the dictionaries, and of the names and sizes of all else that is read."""
    data = Path(run.values["data"])
    found = hashlib.sha256()
    for path in sorted(_files(data)):
        found.update(f"{os.path.relpath(path, data)} {path.stat().st_size}\n".encode())
        if path.match("dict*.txt"):
            found.update(path.read_bytes())
    return found.hexdigest()


def _files(data: Path) -> Iterator[Path]:
    for pattern in ("*.bin", "*.idx", "dict*.txt"):
        yield from data.rglob(pattern)
    # Folds share the word vectors of the folder above.
    yield from (path for path in (data / VECTORS, data.parent / VECTORS) if path.exists())
