"""The decorator that makes an attention function of an equation, and the dispatch of its calls."""

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Concatenate, NamedTuple, ParamSpec

import torch
from torch import Tensor

from fairseq_posattn.attention import auto
from fairseq_posattn.attention.call import Arguments, Attended, Call, Options
from fairseq_posattn.attention.cpu import is_recorded
from fairseq_posattn.attention.kernels.support import constant, kernel_reason
from fairseq_posattn.attention.masks import DistanceMask
from fairseq_posattn.attention.shapes import Shapes
from fairseq_posattn.attention.softmax import heads_beat_sdpa

# Fastest first on a GPU. On a CPU the reference is the fastest in training, and for fewer queries.
IMPLEMENTATIONS = ("triton", "sdpa", "reference")
SDPA_QUERIES = 128
# Kinds of calls whose checks are cached for each function.
CACHED = 1024

Parameters = ParamSpec("Parameters")


class Checked(NamedTuple):
    """Results of the checks of a call, the same for every call of its :func:`kind_of`."""

    impl: str | None  # None: chosen for each call
    options: tuple[bool, float, bool, dict[object, Any]]  # the last fields of Call
    names: tuple[str, ...]  # arguments of the equation
    expanded: dict[str, Any]  # from Shapes.fit


class Attention(auto.Declaration):
    """Attention function; calling it checks a call and dispatches it."""

    def __call__(self, arguments: Arguments) -> Attended:
        """Return the result for arguments and :class:`Options` by name.

        Raises:
            ValueError: a shape, a type or the dropout is wrong; ``impl`` is unknown or cannot serve
                this call.
        """
        kind = None if is_recorded() else kind_of(arguments)  # symbols cannot be keys
        checked = self.checked.get(kind)
        if checked is None:
            checked = self._check(arguments)
            if kind is not None:
                if len(self.checked) == CACHED:
                    self.checked.clear()
                self.checked[kind] = checked
        given = arguments
        if checked.expanded:
            given = {**given, **{n: given[n].expand(to) for n, to in checked.expanded.items()}}
        call = Call(checked.impl or "auto", given.get("key_padding_mask"), *checked.options)
        equation = {name: given[name] for name in checked.names}
        if checked.impl is None:
            call = replace(call, impl=self._choose(call, equation))
        return self.attend(call, **equation)

    def _check(self, arguments: Arguments) -> Checked:
        names = tuple(name for name in arguments if name not in Options.__annotations__)
        equation = {name: arguments[name] for name in names}
        if self.check is not None:
            self.check(equation)
        expanded = self.shapes.fit(arguments)
        padding = arguments.get("key_padding_mask")
        if padding is not None and padding.dtype != torch.bool:
            raise ValueError(f"key_padding_mask is {padding.dtype}; it must be torch.bool")
        dropout_p = arguments.get("dropout_p", 0.0)
        if not 0 <= dropout_p <= 1:
            raise ValueError(f"dropout_p is {dropout_p}; it must be from 0 to 1")
        dropout_p = dropout_p if arguments.get("training", True) else 0.0
        plans: dict[object, Any] = {}
        weights = arguments.get("need_weights", False)
        options = arguments.get("causal", False), dropout_p, weights, plans
        call = Call(arguments.get("impl", "auto"), padding, *options)
        is_chosen = call.impl == "auto" and on_gpu(arguments)
        impl = None if is_chosen else self._choose(call, equation)
        return Checked(impl, options, names, expanded)

    def _choose(self, call: Call, arguments: Arguments) -> str:
        known = self.implementations[::-1]
        if call.impl == "auto":
            if not on_gpu(arguments):
                return self._choose_on_cpu(call, arguments)
            able = (i for i in self.implementations if self._refusal(i, call, arguments) is None)
            if call.need_weights or torch.compiler.is_compiling() or not auto.is_timed():
                return next(able)
            return auto.fastest(self, able, call, arguments)
        if call.impl not in known:
            choices = ", ".join(["auto", *known])
            raise ValueError(
                f"{self.name} has no implementation {call.impl!r}; choose one of: {choices}"
            )
        reason = self._refusal(call.impl, call, arguments)
        if reason is not None:
            others = [impl for impl in known if self._refusal(impl, call, arguments) is None]
            choices = ", ".join(["auto", *others])
            raise ValueError(f"impl={call.impl!r} {reason}; choose one of: {choices}")
        return call.impl

    def _choose_on_cpu(self, call: Call, arguments: Arguments) -> str:
        if not self.sdpa_on_cpu or call.need_weights or torch.is_grad_enabled() or is_recorded():
            return "reference"
        queries = arguments["query"].size(-2)
        by_sdpa = queries >= SDPA_QUERIES and not heads_beat_sdpa(queries)
        return "sdpa" if by_sdpa else "reference"

    def _refusal(self, impl: str, call: Call, arguments: Arguments) -> str | None:
        """Return why an implementation cannot serve a call, or None if it can."""
        if impl == "reference":
            return None
        if call.need_weights:
            return "cannot return weights"
        reason = None if self.refuse is None else self.refuse(impl, arguments)
        if reason is None and impl == "triton":
            reason = kernel_reason(arguments)
            if reason is None and call.impl == "auto":
                reason = self._check_kernels(*auto.kind_of(self, call, arguments))
        return reason

    @constant
    def _check_kernels(self, *kind: Any) -> str | None:
        return auto.self_check_reason(self, auto.Kind(*kind))


def kind_of(arguments: Arguments) -> tuple[object, ...]:
    """Return all that the checks of a call and its kernels depend on, but for alignment."""
    described = [
        (one.dtype, one.shape, one.stride(), one.device, one.requires_grad)
        if isinstance(one, Tensor)
        else one.kind
        if isinstance(one, DistanceMask)
        else one
        for one in arguments.values()
    ]
    return *arguments, torch.is_grad_enabled(), *described


def on_gpu(arguments: Arguments) -> bool:
    """Return whether the tensors of a call are on a GPU."""
    return bool(arguments["value"].is_cuda)


_declared: dict[Callable[..., Attended], Attention] = {}


def declaration_of(function: Callable[..., Attended]) -> Attention:
    """Return the declaration of a function that :func:`attention` decorated."""
    return _declared[function]


def attention(
    shapes: Mapping[str, str] | None = None,
    *,
    vectors: bool = True,
    sdpa: bool = False,
    sdpa_on_cpu: bool = False,
    kernel: str | None = None,
    causal: bool = True,
    check: Callable[[Arguments], None] | None = None,
    refuse: Callable[[str, Arguments], str | None] | None = None,
    spread: Mapping[str, float] | None = None,
) -> Callable[[Callable[Concatenate[Call, Parameters], Attended]], Callable[Parameters, Attended]]:
    """Declare an attention function from its equation ``equation(call, ..., **options)``.

    The decorated function takes the equation's arguments without ``call``, and :class:`Options`.
    It checks and broadcasts the tensors and chooses an implementation. ``impl="auto"`` chooses for
    each call; a named implementation is used or the call fails. The equation gets no options; it
    declares ``**options`` for the signature only.

    Args:
        shapes: shapes of the other tensors by name (see :mod:`fairseq_posattn.attention.shapes`).
        vectors: add the shapes of query, key and value; default True.
        sdpa: the equation also serves ``impl="sdpa"``.
        sdpa_on_cpu: ``auto`` takes it for long texts on a CPU, where no gradient is needed.
        kernel: ``module:function`` in ``attention/kernels`` that serves ``impl="triton"``.
        causal: the function takes ``causal``; default True.
        check: raises ValueError for wrong arguments; called before shapes are checked.
        refuse: returns why an implementation cannot serve the arguments, or None.
        spread: standard deviation of the tensors of which it is not about 1, for the self check.
    """

    def declare(
        equation: Callable[Concatenate[Call, Parameters], Attended],
    ) -> Callable[Parameters, Attended]:
        of_vectors = {"query": "B H Tq D", "key": "B H Tk D", "value": "B H Tk Dv"}
        named = {**(of_vectors if vectors else {}), **(shapes or {}), "key_padding_mask": "B Tk"}
        kernels = () if kernel is None else ("triton",)
        declared = Attention(
            name=equation.__name__,
            attend=_with_kernel(equation, kernel),
            shapes=Shapes(spread, **named),
            implementations=(*kernels, *(("sdpa",) if sdpa else ()), "reference"),
            sdpa_on_cpu=sdpa_on_cpu,
            causal=causal,
            check=check,
            refuse=refuse,
        )
        signature = inspect.signature(equation)
        (_, *parameters) = signature.parameters.values()
        signature = signature.replace(parameters=parameters)
        parameters = [p for p in parameters if p.kind != p.VAR_KEYWORD]
        positional = [p.name for p in parameters if p.kind == p.POSITIONAL_OR_KEYWORD]
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        required = {p.name for p in parameters} - defaults.keys()
        options = Options.__annotations__.keys() - (set() if causal else {"causal"})
        known = required | defaults.keys() | options

        @functools.wraps(equation)
        def function(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Attended:
            arguments = {**defaults, **dict(zip(positional, args, strict=False)), **kwargs}
            # Sets alone: PyTorch 2.11 cannot compile a comparison with a view of keys.
            if len(args) > len(positional) or not required <= set(arguments) <= known:
                signature.bind(*args, **kwargs)  # raises TypeError for anything but an option
                unknown = min(arguments.keys() - known)
                raise TypeError(f"{equation.__name__} has no argument {unknown!r}")
            return declared(arguments)

        function.__signature__ = signature  # type: ignore[attr-defined]
        _declared[function] = declared
        return function

    return declare


def _with_kernel(equation: Callable[..., Attended], name: str | None) -> Callable[..., Attended]:
    """Return a function that computes a checked call by the equation or by the kernel."""
    if name is None:
        return equation
    module, function = name.split(":")
    kernels: dict[str, Callable[..., Attended]] = {}

    @constant
    def load() -> None:  # when it is needed: importing Triton is slow
        if not kernels:
            imported = importlib.import_module(f"fairseq_posattn.attention.kernels.{module}")
            kernels["triton"] = getattr(imported, function)

    def attend(call: Call, **arguments: Any) -> Attended:
        if call.impl != "triton":
            return equation(call, **arguments)
        load()
        return kernels["triton"](call, **arguments)

    return attend
