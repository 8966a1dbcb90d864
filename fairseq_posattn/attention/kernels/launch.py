"""Kernel launches prepared by layout of their tensors, and kernels as differentiable functions."""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, get_type_hints

import torch
from torch import Tensor
from triton.runtime import driver

from fairseq_posattn.attention.call import Call
from fairseq_posattn.attention.kernels.ops import Drawn, Plane, Rows
from fairseq_posattn.attention.kernels.support import tf32_allowed
from fairseq_posattn.attention.kernels.tiles import Tile, block_of
from fairseq_posattn.attention.pytorch import once

# Two programs for each multiprocessor of an H100 or H200, to fill the GPU.
PROGRAMS = 264


def draw_dropout(
    probability: float, device: torch.device, seed: Tensor | None = None
) -> tuple[Tensor | None, int]:
    """Draw a dropout's seed unless it is given; return it and how many of 2**16 are kept."""
    if probability <= 0:
        return None, 2**16
    # From PyTorch's generator into device memory: manual_seed repeats it, and a CUDA graph draws a
    # new seed at each replay.
    seed = torch.randint(2**62, (1,), device=device) if seed is None else seed
    return seed, round((1 - probability) * 2**16)


def drawn(seed: Tensor | None, kept: int) -> Drawn:
    """Return dropout as a kernel argument; the scale is 0 if no weight is kept."""
    largest = (max(kept, 1) - 2**15) * 2**16 - 1
    return Drawn(seed, largest, kept / 2**16, 2**16 / kept if kept else 0.0)


def rows_of(tensor: Tensor) -> Rows:
    """Return a tensor ``[B, H, T, D]`` with last stride 1 as a kernel argument."""
    sentence, head, row, _ = tensor.stride()
    return Rows(tensor, sentence, head, row)


def plane_of(tensor: Tensor) -> Plane:
    """Return a tensor ``[N, M]``, or ``[N, M, C]`` with last stride 1, as a kernel argument."""
    return Plane(tensor, *tensor.stride()[:2])


class Layout(NamedTuple):
    """Properties of tensors on which launches depend."""

    device: torch.device
    dtype: torch.dtype
    precision: str  # of matmuls
    tensors: tuple[tuple[Any, ...] | None, ...]  # type, shape, strides and alignment of each

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The tensors' shapes; () for None."""
        return [() if tensor is None else tuple(tensor[1]) for tensor in self.tensors]

    def matrices(self, features: int, block: int = 128) -> dict[str, object]:
        """Return the constants of matmuls."""
        sizes = {"FEATURES": features, "BLOCK_D": block_of(features, block)}
        return {"PRECISION": self.precision, **sizes}


def layout_of(*tensors: Tensor | None) -> Layout:
    """Return the layout of tensors, of which the third has the vectors' type and device."""
    vectors = tensors[2]
    assert vectors is not None
    # Full precision for float32, unless PyTorch allows TF32.
    full = vectors.dtype == torch.float32 and not tf32_allowed()
    described = [
        None if x is None else (x.dtype, x.shape, x.stride(), x.data_ptr() % 16 == 0)
        for x in tensors
    ]
    return Layout(vectors.device, vectors.dtype, "ieee" if full else "tf32", tuple(described))


def strides_of(*tensors: Tensor | None) -> object:
    """Return strides and alignments, which hooks on saved tensors may change."""
    present = [tensor for tensor in tensors if tensor is not None]
    strides = tuple(map(Tensor.stride, present))
    return strides, tuple([address % 16 == 0 for address in map(Tensor.data_ptr, present)])


class Launch:
    """Kernel launch for tensors of one :class:`Layout`, with its constants and a tile's, if any.

    The compiled variant of the first launch is cached for the others, which pass by Triton's
    choice of it and its launch hooks: they are most of a launch's host time.
    """

    def __init__(
        self,
        kernel: Any,
        programs: int | tuple[int, ...],
        constants: Mapping[str, object],
        tile: Tile | None = None,
    ):
        grid = programs if isinstance(programs, tuple) else (programs,)
        self.kernel, self.grid = kernel, (*grid, 1, 1)[:3]
        # Triton 3.9 warns where it is not chosen, and 3.10 does not fuse.
        self.options = {**constants, "enable_fp_fusion": True}
        if tile is not None:
            self.options |= {"BLOCK_Q": tile.queries, "BLOCK_K": tile.keys}
            self.options |= {"num_warps": tile.warps, "num_stages": tile.stages}
            self.options |= {"maxnreg": tile.registers}
        self.constants: list[object] = []
        self.compiled: Any = None

    def __call__(self, *args: object) -> None:
        compiled = self.compiled
        if compiled is None:
            compiled = self.kernel[self.grid](*args, **self.options)
            if compiled is not None:  # not interpreted; in the signature's order, as from Triton
                self.constants = [self.options[n] for n in self.kernel.arg_names[len(args) :]]
            self.compiled = compiled  # last, for other threads
            return
        gpu = driver.active
        stream = gpu.get_current_stream(gpu.get_current_device())
        hooks = None, None, None
        launched = stream, compiled.function, compiled.packed_metadata
        compiled.run(*self.grid, *launched, *hooks, *args, *self.constants)


class KernelPlan(NamedTuple):
    """Prepared launches of calls of one kind."""

    launches: Any
    are_rows: bool  # the arguments are as kernels read them
    results: list[tuple[torch.Size, tuple[int, ...], torch.dtype]]  # sizes, strides and types
    backward: dict[object, Any]  # launches by strides_of


SCHEMAS: dict[Any, str] = {kind: kind.__name__ for kind in (Tensor, int, float, bool, str)}
SCHEMAS[Tensor | None] = "Tensor?"
Results = tuple[Tensor, ...]
STRIDED = ("mask", "row")  # arguments that kernels read by their strides


class DifferentiableKernels:
    """Forward and backward kernels as one differentiable function.

    Under ``torch.compile`` a call is the operator ``posattn::NAME``, which the graph keeps whole.
    Eager calls avoid the operator: it takes 90 microseconds more per training step.

    Args:
        name: of the operator; its gradient is ``posattn::NAME_backward``.
        inputs: a ``NamedTuple`` class of the arguments, tensors first, which the functions get
            :func:`in_rows`.
        differentiable: number of its first fields that get gradients.
        launches: class of the launches for one layout, built from the :class:`Layout` and the
            arguments behind the tensors but the first, the number kept by dropout. Its method
            ``forward(inputs, results)`` writes the context and what the backward pass needs;
            ``backward(gradient of the context, inputs, results)`` returns the gradients of the
            differentiable arguments that are not None.
        allocate: returns the results without values.
    """

    def __init__(
        self,
        name: str,
        inputs: Any,
        differentiable: int,
        launches: Callable[..., Any],
        allocate: Callable[[Any], Results],
    ):
        self.inputs, self.differentiable = inputs, differentiable
        self.launches_of, self.allocate = lru_cache(maxsize=1024)(launches), allocate
        types = get_type_hints(inputs)
        count = len(types)
        self.tensors = sum(kind in (Tensor, Tensor | None) for kind in types.values())
        declared = ", ".join(f"{SCHEMAS[kind]} {field}" for field, kind in types.items())
        outputs = len(get_type_hints(allocate)["return"].__args__)
        self.operator: Any = torch.library.custom_op(
            f"posattn::{name}",
            lambda *inputs: self.run_forward(self.prepare(inputs), self.in_rows(inputs)),
            mutates_args=(),
            schema=f"({declared}) -> ({', '.join(['Tensor'] * outputs)})",
        )
        self.operator.register_fake(lambda *inputs: allocate(self.in_rows(inputs)))
        results = "".join(f", Tensor result{number}" for number in range(outputs))
        gradient: Any = torch.library.custom_op(
            f"posattn::{name}_backward",
            lambda d_context, *inputs: self.run_backward(
                {}, d_context, inputs[:count], inputs[count:]
            ),
            mutates_args=(),
            schema=f"(Tensor gradient, {declared}{results}) -> Tensor[]",
        )
        gradient.register_fake(
            lambda d_context, *inputs: [
                torch.empty_like(x)
                for x in self.in_rows(inputs[:count])[:differentiable]
                if x is not None
            ]
        )

        def differentiate(ctx: Any, d_context: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
            inputs, saved = self.restore(ctx)
            return self.gradients(inputs, gradient(d_context, *inputs, *saved))

        self.operator.register_autograd(differentiate, setup_context=self.save)

    def __call__(
        self, call: Call, tensors: Sequence[Tensor | None], *constants: Any, dropout_p: float
    ) -> Tensor:
        """Return the context for tensors and constants before and behind padding and dropout."""
        vectors: Any = tensors[2]
        dropout = draw_dropout(dropout_p, vectors.device)
        inputs: Any = *tensors, call.key_padding_mask, *dropout, *constants
        if torch.compiler.is_compiling():
            traced: Tensor = self.operator(*inputs)[0]
            return traced
        tensors = inputs[: self.tensors]
        aligned = [None if x is None else x.data_ptr() % 16 == 0 for x in tensors]
        alignment = vectors.dtype == torch.float32 and tf32_allowed(), *aligned
        plan = call.plans.get(alignment)
        if plan is None:
            plan = call.plans[alignment] = self.prepare(inputs)
        if not plan.are_rows:
            inputs = self.in_rows(inputs)
        result: Tensor = _Function.apply(self, plan, *inputs)  # type: ignore[no-untyped-call]
        return result

    def in_rows(self, inputs: Sequence[Any]) -> Any:
        """Return the arguments as kernels read them: by :func:`in_rows`, unless in STRIDED."""
        named = zip(self.inputs._fields, inputs, strict=True)
        return self.inputs(*[x if name in STRIDED else in_rows(x) for name, x in named])

    def find_launches(self, inputs: Sequence[Any], *others: Tensor) -> Any:
        """Return the launches for arguments in rows, and other tensors that they read."""
        layout = layout_of(*inputs[: self.tensors], *others)
        return self.launches_of(layout, *inputs[self.tensors + 1 :])

    def prepare(self, inputs: Sequence[Any]) -> KernelPlan:
        """Prepare calls with arguments of this kind."""
        rows = self.in_rows(inputs)
        results = [(x.size(), x.stride(), x.dtype) for x in self.allocate(rows)]
        are_rows = all(x is row for x, row in zip(inputs, rows, strict=True))
        return KernelPlan(self.find_launches(rows), are_rows, results, {})

    def run_forward(self, plan: KernelPlan, inputs: Any) -> Results:
        """Run the forward kernels on the GPU of the arguments, which are in rows."""
        empty = inputs[0].new_empty_strided
        results = tuple([empty(size, at, dtype=dtype) for size, at, dtype in plan.results])
        with torch.cuda.device_of(inputs[0]):
            plan.launches.forward(inputs, results)
        return results

    def run_backward(
        self, cached: dict[object, Any], d_context: Tensor, inputs: Sequence[Any], results: Results
    ) -> list[Tensor]:
        """Run the backward kernels on the GPU of the arguments; ``cached`` is by strides_of."""
        launches = cached.get(strides_of(d_context, *inputs[: self.tensors], *results))
        if launches is None:
            d_context, inputs = in_rows(d_context), self.in_rows(inputs)
            launches = self.find_launches(inputs, d_context, *results)
            cached[strides_of(d_context, *inputs[: self.tensors], *results)] = launches
        with torch.cuda.device_of(d_context):
            result: list[Tensor] = launches.backward(d_context, self.inputs(*inputs), results)
            return result

    def save(self, ctx: Any, inputs: Sequence[object], output: Results) -> None:
        ctx.save_for_backward(*inputs[: self.tensors], *output)
        ctx.constants = inputs[self.tensors :]

    def restore(self, ctx: Any) -> tuple[list[Any], Results]:
        """Return the arguments and results that :meth:`save` got."""
        saved = ctx.saved_tensors  # read once: a second read fails under checkpointing
        return [*saved[: self.tensors], *ctx.constants], saved[self.tensors :]

    def gradients(self, inputs: Sequence[Any], computed: list[Tensor]) -> tuple[Tensor | None, ...]:
        """Return a gradient or None for each argument."""
        left = iter(computed)
        wanted = inputs[: self.differentiable]
        others = [None] * (len(inputs) - len(wanted))
        return *(None if x is None else next(left) for x in wanted), *others


class _Function(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: Any, plan: KernelPlan, *inputs: object) -> Tensor:
        results: Results = kernels.run_forward(plan, kernels.inputs(*inputs))
        kernels.save(ctx, inputs, results)
        ctx.kernels, ctx.launches = kernels, plan.backward
        return results[0]

    @staticmethod
    @once
    def backward(ctx: Any, d_context: Tensor) -> tuple[Tensor | None, ...]:
        inputs, saved = ctx.kernels.restore(ctx)
        computed = ctx.kernels.run_backward(ctx.launches, d_context, inputs, saved)
        return None, None, *ctx.kernels.gradients(inputs, computed)


def in_rows(x: Any) -> Any:
    """Return a tensor with last stride 1 if it has four dimensions, else contiguous."""
    is_tensor = isinstance(x, Tensor)
    if not is_tensor or x.is_contiguous() or x.dim() == 4 and x.stride(-1) == 1:
        return x
    return x.contiguous()
