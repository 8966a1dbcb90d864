"""The checkpoint meant by a path that may be a folder."""

import os
import sys

from fairseq_posattn.common.errors import UsageError

NAMES = ("checkpoint_best.pt", "checkpoint_last.pt")


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
