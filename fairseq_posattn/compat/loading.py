"""Loading of checkpoints: no code runs, memory is bounded, and errors name the file."""

import ast
import contextlib
import functools
import operator
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import fairseq
import torch
from fairseq import checkpoint_utils, models, tasks, utils
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.dataclass.utils import _set_legacy_defaults, overwrite_args_by_name
from fairseq.file_io import PathManager
from fairseq.logging import meters
from fairseq.models import BaseFairseqModel
from fairseq.models.transformer import TransformerDecoderBase
from omegaconf import OmegaConf
from torch import Tensor
from torch.nn.modules import module as modules

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.checkpoints import find_checkpoint, read_checkpoint, settings
from fairseq_posattn.compat.fingerprints import note_named_data
from fairseq_posattn.compat.matching import complete, report_difference_in_use
from fairseq_posattn.compat.patching import Function, around, instead, when_applied

# Before 2.10 a file can write beyond the memory of PyTorch's tensors (CVE-2026-24747).
MINIMUM_TORCH = (2, 10)


@when_applied
def require_safe_torch() -> None:
    """Raise ImportError if PyTorch is older than :data:`MINIMUM_TORCH`."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < MINIMUM_TORCH:
        unsafe = f"{torch.__version__}, which checkpoints can harm (CVE-2026-24747)"
        raise ImportError(f"fairseq_posattn needs PyTorch 2.10 or newer, not {unsafe}")


# --- Settings that fairseq passes to eval ---------------------------------------------------------
# fairseq evaluates fconv's --encoder-layers '[(512, 3)] * 20', Adam's --adam-betas and about twenty
# more. A checkpoint brings its settings along, so that translating with a stranger's checkpoint
# runs the stranger's code. In every module of fairseq, examples included, eval means read_literal.

MAX_PARTS = 100_000  # characters of a setting, or numbers, characters and sequences in its value
MAX_DEPTH = 50
UNREADABLE = (
    *(SyntaxError, ValueError, LookupError, ArithmeticError, TypeError),
    *(RecursionError, MemoryError),  # thousands of brackets or signs
)
SEQUENCES: dict[type, Callable[[Any], Any]] = {ast.Tuple: tuple, ast.List: list, ast.Set: set}


@around(utils, "import_user_module")
def replace_eval_in_imported_modules(import_user_module: Function, args: Any) -> None:
    """Define ``eval`` also in the modules of ``--user-dir``, which may be fairseq's examples."""
    import_user_module(args)
    replace_eval()


@when_applied
def replace_eval() -> None:
    """Define ``eval`` in all loaded modules of fairseq, where it shadows the built-in function."""
    installed = os.path.dirname(os.path.dirname(fairseq.__file__))
    folders = tuple(os.path.join(installed, name, "") for name in ("fairseq", "fairseq_cli"))
    for module in list(sys.modules.values()):  # examples have other names than their folders
        if (getattr(module, "__file__", None) or "").startswith(folders):
            vars(module)["eval"] = read_literal


def read_literal(text: str) -> Any:
    """Return the value of a literal with arithmetic, ``[(512, 3)] * 20``; else a UsageError."""
    if not isinstance(text, str):
        raise TypeError(f"a setting must be a string, not {type(text).__name__}")
    try:
        if len(text) > MAX_PARTS:
            raise ValueError
        return _evaluate(ast.parse(text.strip(), mode="eval").body)
    except UNREADABLE:
        read = "numbers, strings, tuples, lists and arithmetic such as [(512, 3)] * 20 are read"
        refused = f"the setting {text[:80]!r} is refused: only {read}, and no large ones"
        raise UsageError(refused) from None


def _evaluate(node: Any, depth: int = MAX_DEPTH) -> Any:
    """Return the value of a node of a literal; raise ValueError for any other node."""
    evaluate = functools.partial(_evaluate, depth=depth - 1)
    value: Any
    match node if depth else None:
        case ast.Constant(value=int() | float() | str() | None as value):
            pass
        case ast.Tuple() | ast.List() | ast.Set():
            value = SEQUENCES[type(node)](map(evaluate, node.elts))
        case ast.Dict():  # a key of None is **, which has no value
            value = dict(zip(map(evaluate, node.keys), map(evaluate, node.values), strict=True))
        case ast.UnaryOp():
            value = OPERATIONS[type(node.op)](evaluate(node.operand))
        case ast.BinOp():
            value = OPERATIONS[type(node.op)](evaluate(node.left), evaluate(node.right))
        case _:
            raise ValueError
    if _count_parts(value) > MAX_PARTS:
        raise ValueError
    return value


def _multiply(left: Any, right: Any) -> Any:
    """Return ``left * right``; raise ValueError if a repeated sequence would be too large."""
    for sequence, times in ((left, right), (right, left)):
        if not isinstance(sequence, (int, float)) and _count_parts(sequence) * times > MAX_PARTS:
            raise ValueError
    return left * right


def _count_parts(value: Any) -> int:
    if isinstance(value, str):
        return 1 + len(value)
    parts = (*value, *value.values()) if isinstance(value, dict) else value
    return 1 + (0 if isinstance(value, (int, float, type(None))) else sum(map(_count_parts, parts)))


OPERATIONS: dict[type, Callable[..., Any]] = {ast.UAdd: operator.pos, ast.USub: operator.neg}
OPERATIONS |= {ast.Add: operator.add, ast.Sub: operator.sub}
OPERATIONS |= {ast.Mult: _multiply, ast.Div: operator.truediv}


@instead(checkpoint_utils, "load_checkpoint_to_cpu")
def load_checkpoint_to_cpu(
    path: str, arg_overrides: dict[str, Any] | None = None, load_on_all_ranks: bool = False
) -> Any:
    """Load a checkpoint with checked settings, which ``torch.load`` refuses since PyTorch 2.6."""
    path = find_checkpoint(PathManager.get_local_path(path))
    state = read_checkpoint(path)
    overrides = arg_overrides or {}
    settings.check(path, state, overrides)
    check_declared_sizes(path, state)
    for name in overrides:  # fairseq skips options that a model lacks
        if name.endswith("layers_to_keep") and name not in settings.saved_group(state, "model"):
            raise UsageError(f"--model-overrides {name!r}: {path} lacks this option; leave it out")
    try:
        complete(state)
        note_named_data(state)
        if state.get("args") is not None:
            vars(state["args"]).update(overrides)
        if state.get("cfg") is not None:
            state["cfg"] = OmegaConf.create(state["cfg"], flags={"allow_objects": True})
            replace_criterion(state["cfg"], overrides.get("criterion"))
            overwrite_args_by_name(state["cfg"], overrides)
        return checkpoint_utils._upgrade_state_dict(state)
    except Exception as error:  # settings of another version, or of another program
        raise UsageError(f"{path} is not a checkpoint of fairseq ({in_one_line(error)})") from error


def replace_criterion(cfg: Any, name: Any) -> None:
    """Take the criterion that ``fairseq-validate`` is given, where fairseq keeps training's.

    Of a criterion's name alone fairseq makes its settings; of settings it replaces values only.
    A criterion without a dataclass reads them from a namespace.
    """
    if not isinstance(name, str) or name == getattr(cfg.get("criterion"), "_name", None):
        return
    cfg.criterion = name
    if name in CRITERION_REGISTRY and name not in CRITERION_DATACLASS_REGISTRY:
        average = OmegaConf.select(cfg, "optimization.sentence_avg")
        cfg.criterion = Namespace(sentence_avg=average, _name=name)
        _set_legacy_defaults(cfg.criterion, CRITERION_REGISTRY[name])


@instead(checkpoint_utils, "load_ema_from_checkpoint")
def load_ema_from_checkpoint(fpath: str) -> dict[str, Any]:
    """Load averaged weights in float32 as the model, from a file that ``torch.load`` refuses."""
    state = read_checkpoint(fpath)
    weights = (state.get("extra_state", {}).get("ema") or {}).items()
    if not weights:
        raise UsageError(f"{fpath} holds no averaged weights: train with --store-ema")
    model = {name: value.float() if value.dtype is torch.half else value for name, value in weights}
    return {**state, "model": model}


@around(TransformerDecoderBase, "upgrade_state_dict_named")
def load_adaptive_softmax(
    upgrade: Function, self: Any, state_dict: dict[str, Any], name: str
) -> Any:
    """Remove the output projection that fairseq adds, and an adaptive softmax does not have."""
    upgrade(self, state_dict, name)
    if self.adaptive_softmax is not None:
        state_dict.pop(f"{name}.output_projection.weight", None)
    return state_dict


# Weights may be saved in half precision, or tied, and computed tables are not saved.
TIMES, EXTRA_BYTES = 4, 256 << 20
# A tensor takes some 250 bytes of a file beside its numbers.
BYTES_PER_TENSOR, EXTRA_TENSORS = 100, 5_000
# A model computes tables, such as sinusoidal positions, of no more than length * width numbers.
LENGTHS, WIDTHS = ("positions", "distance"), ("_dim", "_channels")
REFUSED = "is refused: its settings describe a model that is larger than the file"


class TooLarge(Exception):
    """A model is larger than its checkpoint can hold."""


def check_declared_sizes(path: str, state: dict[str, Any]) -> None:
    """Raise UsageError if the settings describe a table that is larger than the file allows."""
    length, width = 1.0, 1.0
    for group in ("task", "model"):
        for name, value in settings.saved_group(state, group).items():
            number = settings.as_number(value) or 0
            length = max(length, number if str(name).endswith(LENGTHS) else 1)
            width = max(width, number if str(name).endswith(WIDTHS) else 1)
    if 4 * length * width > TIMES * os.path.getsize(path) + EXTRA_BYTES:
        raise UsageError(f"{path} {REFUSED}")


@contextlib.contextmanager
def no_larger_than(size: int, number: int) -> Iterator[None]:
    """Raise TooLarge before a model has over ``size`` bytes or ``number`` tensors or modules."""
    left = {"bytes": size, "tensors": number, "modules": number}

    def take(**amounts: int) -> None:
        for kind, amount in amounts.items():
            left[kind] -= amount
            if left[kind] < 0:
                raise TooLarge

    def take_parameter(module: Any, name: str, parameter: Tensor | None) -> None:
        if parameter is not None:
            take(bytes=parameter.numel() * parameter.element_size(), tensors=1)

    hooks = [
        modules.register_module_parameter_registration_hook(take_parameter),
        modules.register_module_module_registration_hook(lambda *args: take(modules=1)),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@around(checkpoint_utils, "load_model_ensemble_and_task")
def build_within_file_size(
    load: Function,
    filenames: Sequence[str],
    arg_overrides: dict[str, Any] | None = None,
    task: Any = None,
    strict: bool = True,
    suffix: str = "",
    num_shards: int = 1,
    state: Any = None,
) -> Any:
    """Build a checkpoint's model only as far as the file can hold it, and name the file in errors.

    fairseq builds whatever the settings describe, ten million layers too, before it compares the
    model with the weights. It also translates and classifies with NaN and infinite weights.
    """
    names = " ".join(map(str, filenames))
    paths = {
        checkpoint_utils.get_maybe_sharded_checkpoint_filename(name, suffix, shard, num_shards)
        for name in filenames
        for shard in range(num_shards)
    }
    size = sum(os.path.getsize(path) for path in paths if os.path.isfile(path))
    try:
        with no_larger_than(TIMES * size + EXTRA_BYTES, EXTRA_TENSORS + size // BYTES_PER_TENSOR):
            loaded = report_difference_in_use(
                load, filenames, arg_overrides, task, strict, suffix, num_shards, state
            )
    except TooLarge:
        raise UsageError(f"{names} {REFUSED}") from None
    except OSError:
        raise
    except UsageError as error:
        is_named = any(str(name) in str(error) for name in filenames)
        raise UsageError(str(error) if is_named else f"{names}: {error}") from error
    except Exception as error:
        reason = "its model cannot be built, or does not fit its weights or the dictionaries"
        raise UsageError(f"{names}: {reason} ({in_one_line(error)})") from error
    for filename, model in zip(filenames, loaded[0], strict=True):
        require_finite(filename, model.named_parameters())
    return loaded


@around(models, "build_model")
def require_known_architecture(build_model: Function, cfg: Any, *args: Any, **kwargs: Any) -> Any:
    """Refuse an unknown architecture, which may be a user's: fairseq's message is a KeyError."""
    name = getattr(cfg, "_name", None) or getattr(cfg, "arch", None)
    require_known("--arch", name, {**models.ARCH_MODEL_REGISTRY, **models.MODEL_DATACLASS_REGISTRY})
    return build_model(cfg, *args, **kwargs)


@around(tasks, "setup_task")
def require_known_task(setup_task: Function, cfg: Any, **kwargs: Any) -> Any:
    """Refuse an unknown task, which may be a user's: fairseq's message is all settings."""
    name = getattr(cfg, "task", None) or getattr(cfg, "_name", None)
    require_known("--task", name, tasks.TASK_REGISTRY)
    return setup_task(cfg, **kwargs)


def require_known(option: str, name: Any, registry: Mapping[str, Any]) -> None:
    """Raise UsageError for a name that is registered neither by fairseq nor by ``--user-dir``."""
    if name and name not in registry:
        raise UsageError(f"{option} {name}: unknown; give --user-dir, the folder that registers it")


def require_finite(path: str, weights: Iterable[tuple[str, Tensor]]) -> None:
    """Raise UsageError for the first pair of a name and a weight with NaN or infinity."""
    for name, weight in weights:
        if not weight.isfinite().all():
            reason = "its training has diverged; use an earlier checkpoint"
            raise UsageError(f"{path}: the weight {name} is not finite: {reason}")


@around(BaseFairseqModel, "load_state_dict")
def require_floating_point(
    load_state_dict: Function, self: Any, state_dict: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    """Refuse complex, integer and boolean weights, which PyTorch casts silently."""
    for name, weight in self.state_dict().items():
        if weight.is_floating_point():
            require_float(name, state_dict.get(name, weight))
    return load_state_dict(self, state_dict, *args, **kwargs)


def require_float(name: str, weight: Tensor) -> None:
    """Raise UsageError for a weight of another type."""
    if not weight.is_floating_point():
        kind = f"{str(weight.dtype).removeprefix('torch.')}, not floating-point"
        raise UsageError(f"the weight {name} is of type {kind}; use another checkpoint")


@around(meters.MetersDict, "load_state_dict")
def require_meters(load_state_dict: Function, self: Any, state_dict: Any) -> Any:
    """Refuse metrics that are not meters: fairseq calls any name of its module."""
    for _, _, name, _ in state_dict:
        kind = vars(meters).get(name)
        if not (isinstance(kind, type) and issubclass(kind, meters.Meter)):
            raise UsageError(f"there is no meter {str(name)[:80]!r}")
    return load_state_dict(self, state_dict)
