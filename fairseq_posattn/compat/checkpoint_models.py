"""The model of a checkpoint is no larger than the checkpoint, and what is wrong with it one line.

fairseq builds whatever the settings describe, ten million layers too, before it compares the model
with the weights in the file. Here building stops as soon as there is more than the file can hold.
"""

import contextlib
import math
import os

import torch
from fairseq import checkpoint_utils
from fairseq_cli import validate
from torch.nn.modules import module as modules
from torch.utils import _pytree as trees
from torch.utils._python_dispatch import TorchDispatchMode

from fairseq_posattn.common.errors import UsageError, in_one_line
from fairseq_posattn.compat.patching import around

# Weights may be saved in half precision, or tied, and calculated tables are not saved.
TIMES = 4
SMALL = 256 << 20
# A tensor takes some 250 bytes of a file beside its numbers.
BYTES_EACH = 100
FEW = 5_000
WIDEST = 8  # bytes of a number


@around(validate, "main")
def _name_the_criterion(main, cfg, *args, **kwargs):
    """``fairseq-validate`` takes the criterion, too, from the checkpoint."""
    try:
        return main(cfg, *args, **kwargs)
    except (UsageError, OSError):
        raise
    except Exception as error:
        raise UsageError(
            f"{cfg.common_eval.path} cannot be validated with the criterion and the task of "
            f"its settings ({in_one_line(error)})"
        ) from error


@around(checkpoint_utils, "load_model_ensemble_and_task")
def _within_the_files_size(
    load, filenames, arg_overrides=None, task=None, strict=True, suffix="", num_shards=1, state=None
):
    names = " ".join(map(str, filenames))
    size = _size(filenames, suffix, num_shards)
    try:
        with no_larger_than(TIMES * size + SMALL, FEW + size // BYTES_EACH):
            return load(filenames, arg_overrides, task, strict, suffix, num_shards, state)
    except TooLarge:
        raise UsageError(
            f"{names} is refused: its settings describe a model that is larger than the file"
        ) from None
    except UsageError as error:
        if names in str(error):
            raise
        raise UsageError(f"{names}: {error}") from error
    except OSError:
        raise
    except Exception as error:
        raise UsageError(
            f"{names}: its model cannot be built, or does not fit its weights or the "
            f"dictionaries ({in_one_line(error)})"
        ) from error


def _size(filenames, suffix, num_shards):
    """Of the files and their shards that there are, in bytes."""
    paths = {
        checkpoint_utils.get_maybe_sharded_checkpoint_filename(name, suffix, shard, num_shards)
        for name in filenames
        for shard in range(num_shards)
    }
    return sum(os.path.getsize(path) for path in paths if os.path.isfile(path))


class TooLarge(Exception):
    """A model, or a tensor that is calculated for it, is larger than it may be."""


@contextlib.contextmanager
def no_larger_than(size, number):
    """Stop where models are built of more than ``size`` bytes, or ``number`` tensors or modules.

    Raises:
        TooLarge: before the memory is taken.
    """
    left = {"bytes": size, "tensors": number, "modules": number}

    def take(kind, amount):
        left[kind] -= amount
        if left[kind] < 0:
            raise TooLarge

    def count_parameter(module, name, parameter):
        if parameter is not None:
            take("bytes", parameter.numel() * parameter.element_size())
            take("tensors", 1)

    hooks = [
        modules.register_module_parameter_registration_hook(count_parameter),
        modules.register_module_module_registration_hook(lambda *args: take("modules", 1)),
    ]
    try:
        with _NoTensorLargerThan(size):
            yield
    finally:
        for hook in hooks:
            hook.remove()


class _NoTensorLargerThan(TorchDispatchMode):
    """Stops an operation that would return more bytes, as far as PyTorch can tell."""

    @classmethod
    def _should_skip_dynamo(cls):
        """To leave this out of what is compiled PyTorch would import its compiler, for a second."""
        return False

    def __init__(self, size):
        super().__init__()
        self.size = size

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        new = any(returned.alias_info is None for returned in func._schema.returns)
        if new and _planned_bytes(func, args, kwargs) > self.size:
            raise TooLarge
        return func(*args, **kwargs)


def _planned_bytes(func, args, kwargs):
    """Of the tensors that an operation will return."""
    given, form = trees.tree_flatten((args, kwargs))
    shapes = [value.shape for value in given if isinstance(value, torch.Tensor)]
    # These PyTorch plans in Python, and imports its compiler for it.
    if torch.Tag.pointwise in func.tags:
        return WIDEST * math.prod(torch.broadcast_shapes(*shapes))
    if func.overloadpacket is torch.ops.aten.arange:
        start, end, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        return WIDEST * abs(end - start) / abs(step)
    if func.overloadpacket is torch.ops.aten.cat:
        return WIDEST * sum(map(math.prod, shapes))
    given = [value.to("meta") if isinstance(value, torch.Tensor) else value for value in given]
    args, kwargs = trees.tree_unflatten(given, form)
    if "device" in kwargs or not shapes:
        kwargs = {**kwargs, "device": "meta"}
    try:
        results = func(*args, **kwargs)
    except (RuntimeError, TypeError, ValueError):  # no form of it for "meta"
        return 0
    tensors = (value for value in trees.tree_leaves(results) if isinstance(value, torch.Tensor))
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
