"""Checkpoints in a folder."""

import os
import sys
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint

NAMES = ("checkpoint_best.pt", "checkpoint_last.pt")
MAX_NAMED = 3  # checkpoints named in an error


def find_checkpoint(path):
    """Return the path of a checkpoint; for a folder, of its best or else its last checkpoint.

    The choice is reported on standard error.

    Args:
        path (str): a file, which need not exist, or a folder.

    Raises:
        UsageError: the folder has neither of :data:`NAMES`.
    """
    if not os.path.isdir(path):
        return path
    for name in NAMES:
        file = os.path.join(path, name)
        if os.path.isfile(file):
            print(f"fairseq_posattn: {path} is a folder: using its {name}", file=sys.stderr)
            return file
    raise UsageError(f"{path}: the folder has no {' and no '.join(NAMES)}; name a checkpoint")


def readable_checkpoints_beside(path):
    """Return the other checkpoints in the folder of a file that can be read.

    Returns:
        list[str]: at most :data:`MAX_NAMED`, each with its number of updates, the latest first.
    """
    others = [other for other in Path(path).parent.glob("*.pt") if other != Path(path)]
    result = []
    for other in sorted(others, key=lambda other: other.stat().st_mtime, reverse=True):
        try:
            updates = read_checkpoint(other)["optimizer_history"][-1]["num_updates"]
        except (UsageError, OSError, LookupError, TypeError):
            continue
        result.append(f"{other} ({updates} updates)")
        if len(result) == MAX_NAMED:
            break
    return result
