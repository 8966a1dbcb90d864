"""What to go on from where a checkpoint cannot be read or written."""

from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.reading import read_checkpoint

ENOUGH = 3


def good_ones_beside(path):
    """Other checkpoints in the folder of a file that can be read, at most :data:`ENOUGH`.

    Returns:
        list[str]: each with its number of updates, the latest written first.
    """
    others = [other for other in Path(path).parent.glob("*.pt") if other != Path(path)]
    found = []
    for other in sorted(others, key=lambda other: other.stat().st_mtime, reverse=True):
        try:
            updates = read_checkpoint(other)["optimizer_history"][-1]["num_updates"]
        except (UsageError, OSError, LookupError, TypeError):
            continue
        found.append(f"{other} ({updates} updates)")
        if len(found) == ENOUGH:
            break
    return found
