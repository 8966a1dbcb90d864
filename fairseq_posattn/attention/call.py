"""How attention functions are called: the options that all of them share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from typing_extensions import TypedDict


class Options(TypedDict, total=False):
    """What every attention function takes by name, beside arguments of its own.

    Attributes:
        key_padding_mask: bool ``[B, Tk]``, True where padded. Padded keys may hold NaN or infinity;
            padded values must be finite, for their weight is 0 and 0 times NaN is NaN.
        dropout_p: probability of dropping a weight, while ``training``; 0 by default.
        training: True by default.
        impl: ``auto``, by default, or the name of an implementation that the function has:
            ``reference`` is the equation, ``sdpa`` PyTorch's fused attention, ``triton`` kernels.
        need_weights: also return the weights before dropout; False by default.
    """

    key_padding_mask: Tensor | None
    dropout_p: float
    training: bool
    impl: str
    need_weights: bool


@dataclass(frozen=True)
class Call:
    """The options of a call, checked.

    Attributes:
        impl: the implementation that serves it.
        key_padding_mask: bool ``[B, Tk]`` or None.
        dropout_p: 0 where nothing is to be dropped.
        need_weights: whether weights are returned with the context.
    """

    impl: str
    key_padding_mask: Tensor | None
    dropout_p: float
    need_weights: bool


# The arguments of an attention function by name: tensors, masks, and what else is its own.
Arguments = Mapping[str, Any]

# The context, or context and weights.
Attended = Tensor | tuple[Tensor, Tensor]


def context_of(attended: Attended) -> Tensor:
    """The context, without the weights that may be beside it."""
    return attended[0] if isinstance(attended, tuple) else attended


def map_context(change: Callable[[Tensor], Tensor] | None, attended: Attended) -> Attended:
    """The same with another context, None for the same; weights that are beside it stay."""
    if change is None:
        return attended
    if isinstance(attended, tuple):
        context, weights = attended
        return change(context), weights
    return change(attended)
