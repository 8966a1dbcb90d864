"""Reading of checkpoints without running code that they may carry.

The form is checked before they are read (:mod:`~.form`), the contents afterwards
(:mod:`~.contents`), and the settings before anything is built of them (:mod:`~.settings`).
"""

import os
import re
import sys

import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints.contents import (
    STAND_INS,
    ContentError,
    allowed_by_user,
    check_contents,
    stand_ins,
)
from fairseq_posattn.compat.checkpoints.form import FormError, check_form

ANOTHER = "name another one, in training with --restore-file"
IN_FOLDER = ("checkpoint_best.pt", "checkpoint_last.pt")


def find_checkpoint(path):
    """Return the path of a checkpoint; for a folder, of its best or else its last checkpoint.

    The choice is reported on standard error. A file need not exist; a UsageError names a folder
    without either.
    """
    if not os.path.isdir(path):
        return path
    for name in IN_FOLDER:
        file = os.path.join(path, name)
        if os.path.isfile(file):
            print(f"fairseq_posattn: {path} is a folder: using its {name}", file=sys.stderr)
            return file
    raise UsageError(f"{path}: the folder has no {' and no '.join(IN_FOLDER)}; name a checkpoint")


def read_checkpoint(path, device="cpu"):
    """Read a checkpoint onto the CPU without running any code that it may carry.

    Args:
        path (str): the file.
        device (str): "meta" to skip the tensors' numbers, which then take no memory.

    Returns:
        dict: what fairseq saved.

    Raises:
        UsageError: the file is empty, truncated, damaged, not a checkpoint of fairseq, or holds
            types that fairseq does not write.
        OSError: the file cannot be opened.
    """
    further = allowed_by_user()
    with open(path, "rb") as file:
        try:
            whole = check_form(file, STAND_INS.keys() | further.keys())
            with stand_ins(further):
                state = torch.load(whole, map_location=device, weights_only=True)
            state = check_contents(state, os.fstat(file.fileno()).st_size, further.values())
        except (FormError, ContentError) as error:
            raise UsageError(f"{path} {error}{_advice(str(error))}") from None
        except Exception as error:  # a damaged pickle may raise anything
            reason = re.split(r"\n|\. ", str(error))[0]  # advice to let the code run follows
            raise UsageError(
                f"{path} cannot be read ({type(error).__name__}: {reason}); if it is damaged or no "
                f"checkpoint, {ANOTHER}"
            ) from None
    model = state.get("model") if isinstance(state, dict) else None
    if not isinstance(model, dict) or not all(map(_is_weight, model.items())):
        raise UsageError(f"{path} is not a checkpoint of fairseq: it holds no model")
    return state


def _is_weight(item):
    name, weight = item
    return isinstance(name, str) and isinstance(weight, torch.Tensor)


def _advice(error):
    if "it holds" in error:
        return (
            ", which fairseq does not write and which may run code; use another checkpoint, or if "
            "you know that it is harmless, allow it with torch.serialization.add_safe_globals"
        )
    if "refused" in error:
        return "; use another checkpoint"
    return f"; if it is damaged or no checkpoint, {ANOTHER}"
