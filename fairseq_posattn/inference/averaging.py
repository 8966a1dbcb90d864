"""Average the weights of several checkpoints of one training run into a new checkpoint.

    %(prog)s --inputs checkpoints/iwslt --num-epoch-checkpoints 5 \\
        --output checkpoints/iwslt/average.pt

The result has the settings of the newest checkpoint and no optimizer state: use it to translate, to
validate and with --finetune-from-model, not to resume training. Checkpoints whose model, languages
or dictionaries differ are refused.
"""

from argparse import ArgumentError, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_posattn.common import cli
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import check_unsplit, output_file, writing
from fairseq_posattn.compat.checkpoints import find_checkpoint

SHAPE = "shape of "
UNSET = "_float_tensor"  # a buffer of fairseq that is never set
PATTERNS = {"epoch": r"checkpoint(\d+)\.pt", "update": r"checkpoint_\d+_(\d+)\.pt"}
WRITTEN = {
    "epoch": "at the end of an epoch (checkpoint3.pt)",
    "update": "within an epoch (checkpoint_3_2000.pt)",
}

KEPT = {
    "epoch": "--keep-last-epochs {}",
    "update": "--save-interval-updates N --keep-interval-updates {}",
}


def make_parser(prog: str | None = None) -> ArgumentParser:
    parser = cli.make_parser(__doc__, prog)
    about = "checkpoints, or folders with checkpoint_best.pt or checkpoint_last.pt, oldest first; "
    about += "with --num-epoch-checkpoints or --num-update-checkpoints, the folder that holds them "
    about += "(fairseq's --save-dir)"
    parser.add_argument("--inputs", nargs="+", required=True, metavar="PATH", help=about)
    about = "checkpoint to write"
    parser.add_argument("--output", required=True, type=output_file, metavar="FILE", help=about)
    count = parser.add_mutually_exclusive_group()
    for kind, when in WRITTEN.items():
        about = f"average the last N checkpoints written {when}"
        count.add_argument(f"--num-{kind}-checkpoints", type=cli.positive, metavar="N", help=about)
    about = "count back from epoch M (or update M) (default: from the last)"
    parser.add_argument("--checkpoint-upper-bound", type=int, metavar="M", help=about)
    return parser


def main(arguments: Sequence[str] | None = None, prog: str | None = None) -> int:
    return cli.run(make_parser(prog), average, arguments)


def average(args: Namespace) -> None:
    """Write the average that a command line describes."""
    check_unsplit(args.output, "--output")
    count = args.num_epoch_checkpoints or args.num_update_checkpoints
    if count is None and args.checkpoint_upper_bound is not None:
        needed = "--num-epoch-checkpoints or --num-update-checkpoints"
        raise ArgumentError(None, f"--checkpoint-upper-bound needs {needed}")
    if count and (len(args.inputs) > 1 or not Path(args.inputs[0]).is_dir()):
        named = " ".join(args.inputs)
        problem = f"--inputs {named}: to count checkpoints, name one existing folder"
        raise ArgumentError(None, problem)
    import torch

    from fairseq_posattn import compat  # only here: --help needs no PyTorch

    compat.apply()
    if count:
        kind = "epoch" if args.num_epoch_checkpoints else "update"
        paths = last_checkpoints(args.inputs[0], kind, count, args.checkpoint_upper_bound)
    else:
        paths = [find_checkpoint(path) for path in args.inputs]
    state = average_checkpoints(paths)
    with writing(args.output, binary=True) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # PyTorch wraps the error of the file
            raise error.__context__ or error from None
    what = f"the mean of {len(paths)} checkpoints"
    if len(paths) == 1:
        what = f"the weights of {paths[0]} alone; for a mean name several checkpoints, or a folder "
        what += "with --num-epoch-checkpoints N"
    print(f"wrote {args.output}: {what}")


def last_checkpoints(
    directory: str, kind: str, count: int, upper_bound: int | None = None
) -> list[str]:
    """Return the last ``count`` checkpoints of a kind ("epoch" or "update"), oldest first."""
    from fairseq import checkpoint_utils

    numbered = checkpoint_utils.checkpoint_paths(directory, PATTERNS[kind], keep_match=True)
    paths = [path for path, number in numbered if upper_bound is None or number <= upper_bound]
    if len(paths) < count:
        bound = "" if upper_bound is None else f" up to {kind} {upper_bound}"
        raise UsageError(
            f"{directory}: {len(paths)} {kind} checkpoints{bound}, fewer than "
            f"--num-{kind}-checkpoints {count}; train with {KEPT[kind].format(count)} (for posattn "
            "train after --)"
        )
    return paths[:count][::-1]


def average_checkpoints(paths: Sequence[str]) -> dict[str, Any]:
    """Return a checkpoint with the mean weights of ``paths``, which end with the newest.

    Means are computed in float64 and stored in the weights' precision, at least float32. Integer
    buffers are the newest checkpoint's.
    """
    import torch

    from fairseq_posattn.compat.checkpoints import read_checkpoint
    from fairseq_posattn.compat.loading import require_finite, require_float
    from fairseq_posattn.training.plugin import register

    register()  # models declare which options may differ
    sums: dict[str, torch.Tensor] = {}
    first = None
    for path in paths:
        print(f"reading {path}", flush=True)
        state = read_checkpoint(path)
        weights, shared = state["model"], essentials(state)
        first = first or shared
        require_same(path, shared, paths[0], first)
        for name, weight in weights.items():
            if weight.is_complex() or name.endswith(("weight", "bias")):  # or else a buffer
                require_float(f"{name} of {path}", weight)
        learned = ((name, one) for name, one in weights.items() if not name.endswith(UNSET))
        require_finite(path, learned)
        for name, weight in weights.items():
            if weight.is_floating_point():
                sums[name] = sums.get(name, torch.zeros(())) + weight.double()
    for name, weight in weights.items():
        if weight.is_floating_point():
            dtype = torch.promote_types(weight.dtype, torch.float32)
            weights[name] = (sums[name] / len(paths)).to(dtype)
    return {name: value for name, value in state.items() if name != "last_optimizer_state"}


def essentials(state: dict[str, Any]) -> dict[str, Any]:
    """Return the settings and shapes that averaged checkpoints must share, by name.

    Settings that act in training only, such as dropout, are left out. Older models of fairseq have
    a Namespace of all options, of which only those count that decide which weights exist.
    """
    from fairseq_posattn.compat.checks import flag
    from fairseq_posattn.compat.data import KEY, NAMES
    from fairseq_posattn.compat.matching import free_options, is_structural, model_options

    saved, model = _settings(state.get("cfg")), model_options(state)
    options = _settings(model)
    arch = options.get("_name") or options.get("arch")
    free, all_count = free_options(arch) | {"arch"}, isinstance(model, dict)
    shared = {
        flag(name): value
        for name, value in options.items()
        if name not in free and "drop" not in name and (all_count or is_structural(name, arch))
    }
    task = _settings(saved.get("task") or state.get("args"))
    shared |= {flag(name): task.get(name) for name in ("source_lang", "target_lang")}
    known = _settings(_settings(state.get("extra_state")).get(KEY))
    shared |= {f"the dictionary of {what}": known.get(name) for name, what in NAMES.items()}
    for name, weight in state["model"].items():
        kind = () if weight.is_floating_point() else (weight.dtype,)
        shared[SHAPE + name] = (*kind, *weight.shape)
    return {name: value for name, value in shared.items() if value is not None}


def _settings(group: Any) -> dict[str, Any]:
    group = vars(group) if isinstance(group, Namespace) else group
    return {str(name): group[name] for name in group} if isinstance(group, dict) else {}


def require_same(
    path: str, shared: dict[str, Any], first_path: str, first_shared: dict[str, Any]
) -> None:
    """Raise UsageError if settings or shapes of a checkpoint differ from those of the first."""
    for name in [*shared, *first_shared]:
        one, other = shared.get(name), first_shared.get(name)
        may_lack = not name.startswith(SHAPE)
        if str(one) != str(other) and not (may_lack and None in (one, other)):
            raise UsageError(
                f"{path}: {name} is {str(one)[:40]}, but {str(other)[:40]} in {first_path}; "
                "average checkpoints of one training run"
            )
