"""An attention function as it is declared once, and called: checked, then served by one of its
implementations, which ``auto`` chooses for each call, or which is named and then never replaced.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Arguments, Attended, Call, Options
from fairseq_posattn.attention.kernels.support import kernel_reason
from fairseq_posattn.attention.self_check import self_check_reason
from fairseq_posattn.attention.shapes import Shapes

# Best first, on a GPU. On a CPU, training sentences, the reference is the fastest.
IMPLEMENTATIONS = ("triton", "sdpa", "reference")


@dataclass(frozen=True, eq=False)
class Attention:
    """An attention function: what it takes, and by what it can be computed.

    Attributes:
        name: for messages.
        attend: given the ``Call``, and by name all arguments, it returns the context, with
            ``need_weights`` also the weights.
        shapes: of its tensors; ``key_padding_mask`` among them.
        implementations: names, ``reference`` among them. None but the reference returns weights.
        refuse: given an implementation and the arguments, why it cannot serve them, or None.
        spread: of the tensors whose numbers are not of size 1, for the self check.
    """

    name: str
    attend: Callable[..., Attended]
    shapes: Shapes
    implementations: tuple[str, ...] = ("reference",)
    refuse: Callable[[str, Arguments], str | None] = lambda impl, arguments: None
    spread: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, options: Options, **arguments: object) -> Attended:
        """The function's result.

        Raises:
            TypeError: an option is none of :class:`Options`.
            ValueError: a shape, a type or the dropout is wrong; ``impl`` is unknown or cannot serve
                this call.
        """
        for name in options.keys() - Options.__annotations__.keys():
            raise TypeError(f"{self.name} has no argument {name!r}")
        fitted = self.shapes.broadcast(
            {**arguments, "key_padding_mask": options.get("key_padding_mask")}
        )
        padding: Tensor | None = fitted.pop("key_padding_mask")
        if padding is not None and padding.dtype != torch.bool:
            raise ValueError(f"key_padding_mask is {padding.dtype}; it must be torch.bool")
        dropout_p = options.get("dropout_p", 0.0)
        if not 0 <= dropout_p <= 1:
            raise ValueError(f"dropout_p is {dropout_p}; it must be from 0 to 1")
        dropout_p = dropout_p if options.get("training", True) else 0.0
        requested = options.get("impl", "auto")
        call = Call(requested, padding, dropout_p, options.get("need_weights", False))
        return self.attend(replace(call, impl=self._choose(call, fitted)), **fitted)

    def _choose(self, call: Call, arguments: Arguments) -> str:
        if call.impl == "auto":
            if not arguments["value"].is_cuda:
                return "reference"
            return next(
                impl
                for impl in IMPLEMENTATIONS
                if impl in self.implementations and self._reason(impl, call, arguments) is None
            )
        known = [impl for impl in reversed(IMPLEMENTATIONS) if impl in self.implementations]
        if call.impl not in known:
            raise ValueError(
                f"{self.name} has no implementation {call.impl!r}; choose one of: "
                + ", ".join(["auto", *known])
            )
        reason = self._reason(call.impl, call, arguments)
        if reason is not None:
            able = [impl for impl in known if self._reason(impl, call, arguments) is None]
            raise ValueError(
                f"impl={call.impl!r} {reason}; choose one of: {', '.join(['auto', *able])}"
            )
        return call.impl

    def _reason(self, impl: str, call: Call, arguments: Arguments) -> str | None:
        """Why an implementation cannot serve a call, or None where it can."""
        if impl == "reference":
            return None
        if call.need_weights:
            return "cannot return weights"
        reason = self.refuse(impl, arguments)
        if reason is None and impl == "triton":
            reason = kernel_reason(arguments, named=call.impl == impl)
            if reason is None and call.impl == "auto":
                reason = self_check_reason(self, call, arguments)
        return reason
