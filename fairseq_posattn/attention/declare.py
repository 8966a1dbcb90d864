"""The decorator that makes an attention function of an equation, and the dispatch of its calls."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Concatenate, NamedTuple, ParamSpec

import torch
from torch import Tensor

from fairseq_posattn.attention import auto
from fairseq_posattn.attention.call import Arguments, Attended, Call, Options
from fairseq_posattn.attention.kernels.support import kernel_reason, with_kernel
from fairseq_posattn.attention.pytorch import constant, is_traced
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import heads_beat_sdpa

# Fastest first on a GPU. On a CPU the reference is the fastest for fewer queries, and with dropout.
IMPLEMENTATIONS = ("triton", "sdpa", "reference")
SDPA_QUERIES = 128
SDPA_QUERIES_IN_TRAINING = 256
CACHED = 1024  # decisions of each function

Parameters = ParamSpec("Parameters")
CallKind = tuple[object, ...]


class Decision(NamedTuple):
    """Results of the checks of a call, the same for every call of its :func:`kind_of`."""

    names: tuple[str, ...]  # arguments of the equation
    expanded: dict[str, Any]  # from Shapes.fit
    options: dict[str, Any]  # of Call, among them the implementation and the kernels' plans


@dataclass(frozen=True, eq=False)
class Attention:
    """Attention function; calling it checks a call and dispatches it; see :func:`attention`."""

    name: str
    attend: Callable[..., Attended]  # takes a Call and the equation's arguments by name
    shapes: Shapes
    implementations: tuple[str, ...]  # in the order of IMPLEMENTATIONS
    sdpa_on_cpu: bool
    causal: bool
    check: Callable[[str, Arguments], str | None] | None
    decisions: dict[CallKind, Decision] = field(default_factory=dict, init=False)

    def __call__(self, arguments: Arguments) -> Attended:
        """Return the result for arguments and :class:`Options` by name.

        Raises:
            ValueError: a shape, a type or the dropout is wrong; ``impl`` cannot serve this call.
        """
        kind = None if is_traced() else kind_of(arguments)  # symbols cannot be keys
        decision = None if kind is None else self.decisions.get(kind)
        if decision is None:
            decision = self._decide(arguments)
            if kind is not None and not (on_gpu(arguments) and auto.is_capturing()):
                if len(self.decisions) == CACHED:
                    self.decisions.clear()
                self.decisions[kind] = decision
        expanded = _expand(arguments, decision.expanded)
        call = Call(key_padding_mask=expanded.get("key_padding_mask"), **decision.options)
        return self.attend(call, **{name: expanded[name] for name in decision.names})

    def _decide(self, arguments: Arguments) -> Decision:
        names = tuple(name for name in arguments if name not in Options.__annotations__)
        if self.check is not None:
            self.check("reference", arguments)
        expanded = self.shapes.fit(arguments)
        padding = arguments.get("key_padding_mask")
        if padding is not None and padding.dtype != torch.bool:
            raise ValueError(f"key_padding_mask is {padding.dtype}; it must be torch.bool")
        dropout_p = arguments.get("dropout_p", 0.0)
        # A decision holds for calls with tensors like these, whatever their values.
        if isinstance(dropout_p, Tensor) or not 0 <= dropout_p <= 1:
            raise ValueError(f"dropout_p is {dropout_p}; it must be a number from 0 to 1")
        options = {
            "causal": arguments.get("causal", False),
            "dropout_p": dropout_p if arguments.get("training", True) else 0.0,
            "need_weights": arguments.get("need_weights", False),
        }
        arguments = _expand(arguments, expanded)
        call = Call(arguments.get("impl", "auto"), arguments.get("key_padding_mask"), **options)
        options["impl"] = self._choose(call, {name: arguments[name] for name in names})
        return Decision(names, expanded, {**options, "plans": {}})

    def _choose(self, call: Call, arguments: Arguments) -> str:
        if call.impl == "auto" and not on_gpu(arguments):
            return self._choose_on_cpu(call, arguments)
        reasons = {impl: self._refusal(impl, call, arguments) for impl in self.implementations}
        able = [impl for impl, reason in reasons.items() if reason is None]
        if call.impl not in ("auto", *able):
            reason = reasons.get(call.impl, f"is no implementation of {self.name}")
            choices = ", ".join(["auto", *able[::-1]])
            raise ValueError(f"impl={call.impl!r} {reason}; choose one of: {choices}")
        return able[0] if call.impl == "auto" else call.impl

    def _choose_on_cpu(self, call: Call, arguments: Arguments) -> str:
        if not self.sdpa_on_cpu or call.need_weights or call.dropout_p or is_traced():
            return "reference"
        queries = arguments["query"].size(-2)
        if torch.is_grad_enabled():
            by_sdpa = queries >= SDPA_QUERIES_IN_TRAINING
        else:
            by_sdpa = queries >= SDPA_QUERIES and not heads_beat_sdpa(queries)
        return "sdpa" if by_sdpa else "reference"

    def _refusal(self, impl: str, call: Call, arguments: Arguments) -> str | None:
        """Return why an implementation cannot serve a call, or None if it can."""
        if impl == "reference":
            return None
        if call.need_weights:
            return "cannot return weights"
        reason = None if self.check is None else self.check(impl, arguments)
        if reason is None and impl == "triton":
            reason = kernel_reason(arguments)
            if reason is None and call.impl == "auto":
                reason = self._check_kernels(*auto.example_of(self.shapes, call, arguments))
        return reason

    @constant
    def _check_kernels(self, *example: Any) -> str | None:
        checked = auto.Example(*example)
        return auto.self_check_reason(self.name, self.attend, self.shapes, checked)


def kind_of(arguments: Arguments) -> CallKind:
    """Return all that the checks of a call and its kernels depend on, but for alignment."""
    described = [
        (value.dtype, value.shape, value.stride(), value.device, value.requires_grad)
        if isinstance(value, Tensor)
        else getattr(value, "kind", value)  # a DistanceMask has one
        for value in arguments.values()
    ]
    return *arguments, torch.is_grad_enabled(), *described


def on_gpu(arguments: Arguments) -> bool:
    """Return whether the tensors of a call are on a GPU."""
    return bool(arguments["value"].is_cuda)


def _expand(arguments: Arguments, expanded: dict[str, Any]) -> Arguments:
    if not expanded:
        return arguments
    return {**arguments, **{name: arguments[name].expand(to) for name, to in expanded.items()}}


_declared: dict[Callable[..., Attended], Attention] = {}


def declaration_of(function: Callable[..., Attended]) -> Attention:
    """Return the declaration of a function that :func:`attention` decorated."""
    return _declared[function]


def attention(
    *,
    sdpa: bool = False,
    sdpa_on_cpu: bool = False,
    kernel: str | None = None,
    triton: bool = False,
    causal: bool = True,
    check: Callable[[str, Arguments], str | None] | None = None,
) -> Callable[[Callable[Concatenate[Call, Parameters], Attended]], Callable[Parameters, Attended]]:
    """Declare an attention function from its equation ``equation(call, ..., **options)``.

    The decorated function takes the equation's arguments without ``call``, and :class:`Options`.
    It checks and broadcasts the tensors by the shapes in the equation's signature, such as
    ``Annotated[Tensor, "B Tq"]`` (:mod:`fairseq_posattn.attention.shapes`), and chooses an
    implementation. ``impl="auto"`` chooses for each kind of call; a named implementation is used or
    the call fails. The equation gets no options; it declares ``**options`` for the signature only.

    Args:
        sdpa: the equation also serves ``impl="sdpa"``.
        sdpa_on_cpu: ``auto`` takes it for long texts on a CPU, where there is no dropout.
        kernel: ``module:function`` in ``attention/kernels`` that serves ``impl="triton"``.
        triton: the equation also serves ``impl="triton"``.
        causal: the function takes ``causal``; default True.
        check: takes an implementation and the arguments; returns why it cannot serve them, or None.
            Raises ValueError for wrong arguments. Called before shapes are checked.
    """

    def declare(
        equation: Callable[Concatenate[Call, Parameters], Attended],
    ) -> Callable[Parameters, Attended]:
        signature = inspect.signature(equation)
        (_, *parameters) = signature.parameters.values()
        signature = signature.replace(parameters=parameters)
        parameters = [p for p in parameters if p.kind != p.VAR_KEYWORD]
        kernels = ("triton",) if triton or kernel is not None else ()
        declared = Attention(
            name=equation.__name__,
            attend=equation if kernel is None else with_kernel(kernel)(equation),
            shapes=Shapes({p.name: p.annotation for p in parameters}),
            implementations=(*kernels, *(("sdpa",) if sdpa else ()), "reference"),
            sdpa_on_cpu=sdpa_on_cpu,
            causal=causal,
            check=check,
        )
        positional = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        required = {p.name for p in parameters} - defaults.keys()
        options = Options.__annotations__.keys() - (set() if causal else {"causal"})
        known = required | defaults.keys() | options

        @functools.wraps(equation)
        def function(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Attended:
            named = {**dict(zip(positional, args, strict=False)), **kwargs}
            arguments, number = {**defaults, **named}, len(args) + len(kwargs)
            # Sets alone: PyTorch 2.11 cannot compile a comparison with a view of keys.
            if len(named) < number or not required <= set(arguments) <= known:
                signature.bind(*args, **kwargs)  # raises TypeError for anything but an option
                unknown = min(arguments.keys() - known)
                raise TypeError(f"{equation.__name__} has no argument {unknown!r}")
            return declared(arguments)

        function.__signature__ = signature  # type: ignore[attr-defined]
        _declared[function] = declared
        return function

    return declare
