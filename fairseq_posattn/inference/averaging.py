"""Mean weights of several checkpoints of one training run."""

from collections.abc import Sequence
from typing import Any

import torch

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat.checkpoints import read_checkpoint
from fairseq_posattn.compat.checkpoints.settings import saved_group
from fairseq_posattn.compat.checks import flag
from fairseq_posattn.compat.fingerprints import KEY, NAMES
from fairseq_posattn.compat.loading import require_finite, require_float
from fairseq_posattn.compat.matching import LAST, free_options, is_structural
from fairseq_posattn.training.registered import checkpoint_utils  # models declare what may differ

SHAPE = "shape of "
UNSET = "_float_tensor"  # a buffer of fairseq that is never set
KINDS = {  # names of checkpoints, and the flags that keep them
    "epoch": (r"checkpoint(\d+)\.pt", "--keep-last-epochs {}"),
    "update": (r"checkpoint_\d+_(\d+)\.pt", "--save-interval-updates N --keep-interval-updates {}"),
}


def last_checkpoints(
    directory: str, kind: str, count: int, upper_bound: int | None = None
) -> list[str]:
    """Return the last ``count`` checkpoints of a kind ("epoch" or "update"), oldest first."""
    pattern, flags = KINDS[kind]
    numbered = checkpoint_utils.checkpoint_paths(directory, pattern, keep_match=True)
    paths = [path for path, number in numbered if upper_bound is None or number <= upper_bound]
    if len(paths) < count:
        bound = "" if upper_bound is None else f" up to {kind} {upper_bound}"
        few = f"{len(paths)} {kind} checkpoints{bound}, fewer than --num-{kind}-checkpoints {count}"
        fix = f"train with {flags.format(count)} (for posattn train after --)"
        raise UsageError(f"{directory}: {few}; {fix}")
    return paths[:count][::-1]


def average_checkpoints(paths: Sequence[str]) -> dict[str, Any]:
    """Return the mean of checkpoints, in float64; integer buffers are the newest's."""
    sums: dict[str, torch.Tensor] = {}
    first = None
    for path in paths:
        print(f"reading {path}", flush=True)
        state = read_checkpoint(path)
        weights, shared = state["model"], essentials(state)
        first = first or shared
        require_same(path, shared, paths[0], first)
        learned = ((name, weight) for name, weight in weights.items() if not name.endswith(UNSET))
        require_finite(path, learned)
        for name, weight in weights.items():
            if weight.is_complex() or name.endswith(("weight", "bias")):  # or else a buffer
                require_float(f"{name} of {path}", weight)
            if weight.is_floating_point():
                sums[name] = sums.get(name, torch.zeros(())) + weight.double()
    for name, weight in weights.items():
        if weight.is_floating_point():
            dtype = torch.promote_types(weight.dtype, torch.float32)
            weights[name] = (sums[name] / len(paths)).to(dtype)
    (state.get("extra_state") or {}).pop("val_loss", None)  # that of the last checkpoint
    return {name: value for name, value in state.items() if name != "last_optimizer_state"}


def essentials(state: dict[str, Any]) -> dict[str, Any]:
    """Return what averaged checkpoints must share: shapes, settings used in inference, the seed."""
    options, task = saved_group(state, "model"), saved_group(state, "task")
    arch = options.get("_name") or options.get("arch")
    # Those of older models are all flags of a command, with "arch".
    free, all_count = free_options(arch) | {"arch"}, "arch" not in options
    shared = {
        flag(str(name)): value
        for name, value in options.items()
        if name not in free and "drop" not in str(name)
        if all_count or is_structural(str(name), arch)
    }
    shared |= {flag(name): task.get(name) for name in ("source_lang", "target_lang")}
    start = saved_group(state, "checkpoint")
    is_random = start.get("restore_file") in (None, "", LAST)
    if is_random and not (start.get("finetune_from_model") or start.get("continue_once")):
        shared["--seed"] = saved_group(state, "common").get("seed")
    known = (state.get("extra_state") or {}).get(KEY) or {}
    shared |= {f"the dictionary of {what}": known.get(name) for name, what in NAMES.items()}
    for name, weight in state["model"].items():
        kind = () if weight.is_floating_point() else (weight.dtype,)
        shared[SHAPE + name] = (*kind, *weight.shape)
    return {name: value for name, value in shared.items() if value is not None}


def require_same(path: str, shared: dict[str, Any], first: str, expected: dict[str, Any]) -> None:
    """Raise UsageError if settings or shapes of a checkpoint differ from those of the first."""
    for name in [*shared, *expected]:
        value, other = shared.get(name), expected.get(name)
        may_lack = not name.startswith(SHAPE)
        if str(value) != str(other) and not (may_lack and None in (value, other)):
            differ = f"{name} is {str(value)[:40]}, but {str(other)[:40]} in {first}"
            raise UsageError(f"{path}: {differ}; average checkpoints of one training run")
