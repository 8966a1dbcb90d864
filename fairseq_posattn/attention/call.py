"""Types of a call to an attention function: its options, its arguments and its result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from torch import Tensor
from typing_extensions import TypedDict

from fairseq_posattn.attention.positions import blocked_keys

Query = Annotated[Tensor, "B H Tq D"]
Key = Annotated[Tensor, "B H Tk D"]
Value = Annotated[Tensor, "B H Tk Dv"]


class Options(TypedDict, total=False):
    """Keyword arguments of every attention function.

    Attributes:
        key_padding_mask: bool ``[B, Tk]``, True where padded. Padded values must be finite, since 0
            times NaN is NaN; for ``sdpa``, and so for ``auto``, padded keys, too.
        causal: block the keys after each query; default False. Functions whose mask gives the
            direction do not have it.
        dropout_p: probability of dropping a weight while ``training``; default 0.
        training: default True.
        impl: implementation; ``auto`` (default), ``reference`` (the equation), ``sdpa`` (PyTorch's
            fused attention) or ``triton`` (kernels), where the function has it.
        need_weights: also return the weights before dropout; default False.
    """

    key_padding_mask: Tensor | None
    causal: bool
    dropout_p: float
    training: bool
    impl: str
    need_weights: bool


@dataclass(frozen=True)
class Call:
    """Checked options of a call: see :class:`Options`; ``dropout_p`` is 0 outside training."""

    impl: str = "reference"
    key_padding_mask: Tensor | None = None
    causal: bool = False
    dropout_p: float = 0.0
    need_weights: bool = False
    # Cache of the kernels, shared by calls of the same kind.
    plans: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def blocked(self, query: Tensor, key: Tensor) -> Tensor | None:
        """Return the keys a query may not see: bool ``[B, 1, Tq, Tk]`` (broadcastable) or None."""
        # Padding is the same for every number of queries, so that attentions share the mask.
        queries, padding = query.size(-2) if self.causal else 1, self.key_padding_mask
        return blocked_keys(queries, key.size(-2), padding, self.causal, query.device)


Arguments = Mapping[str, Any]  # of an attention function by name, beside the options
Attended = Tensor | tuple[Tensor, Tensor]  # the context, or context and weights


def context_of(attended: Attended) -> Tensor:
    """Return the context without the weights."""
    return attended[0] if isinstance(attended, tuple) else attended


def map_context(change: Callable[[Tensor], Tensor], attended: Attended) -> Attended:
    """Apply ``change`` to the context; weights pass unchanged."""
    if isinstance(attended, tuple):
        return change(attended[0]), attended[1]
    return change(attended)
