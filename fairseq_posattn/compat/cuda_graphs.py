"""Forward and backward passes of training as CUDA graphs: one launch of all kernels of a batch.

A graph serves one shape of a batch; with ``--required-seq-len-multiple 8`` there are few.
"""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_posattn.compat.patching import replaced

# Criterions that ask the host nothing and log, beside tensors, what Graphs.train counts.
LOSSES = ("cross_entropy", "label_smoothed_cross_entropy")
MOST = 256  # graphs; batches of further shapes are computed without


class Recorded(NamedTuple):
    """A graph of a shape, and the tensors that it reads and writes."""

    sample: dict[str, Any]
    graph: Any
    loss: Tensor
    logged: dict[str, Any]


class Graphs:
    """The graphs of a training by shapes of batches. All write one set of gradients."""

    def __init__(self, model: torch.nn.Module, criterion: Any, optimizer: Any) -> None:
        self.criterion, self.optimizer, self.model = criterion, optimizer, model
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.gradients: list[Tensor | None] = []
        self.met: set[object] = set()
        self.recorded: dict[object, Recorded] = {}
        self.first: Any = None
        self.scaler = getattr(optimizer, "scaler", None)
        self.loss_scale = torch.ones((), device=self.parameters[0].device)

    def note(self, sample: dict[str, Any]) -> bool:
        """Note the shape of a batch; return whether it has or may get a graph: it recurs."""
        shape = shape_of(sample)
        if shape in self.recorded:
            return True
        recurs = shape in self.met
        self.met.add(shape)
        return recurs and len(self.recorded) < MOST

    def train(self, sample: dict[str, Any]) -> tuple[Tensor, Any, dict[str, Any]]:
        """Add a batch's gradients; return loss, sample size and what is logged, as a task does."""
        shape, earlier = shape_of(sample), [parameter.grad for parameter in self.parameters]
        accumulates = any(gradient is not None for gradient in earlier)
        if accumulates:  # the graph would overwrite them
            earlier = [None if gradient is None else gradient.clone() for gradient in earlier]
        if shape not in self.recorded:
            self.recorded[shape] = self._record(sample)
        recorded = self.recorded[shape]
        for buffer, tensor in zip(tensors_of(recorded.sample), tensors_of(sample), strict=True):
            buffer.copy_(tensor)
        if self.scaler is not None:
            self.loss_scale.fill_(self.scaler.loss_scale)
        recorded.graph.replay()
        gradients = earlier if accumulates else self.gradients
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        if accumulates:
            torch._foreach_add_(present(earlier), present(self.gradients))
        if hasattr(self.optimizer, "_needs_sync"):
            self.optimizer._needs_sync = True
        sentences, tokens = sample["target"].size(0), sample["ntokens"]
        size = sentences if self.criterion.sentence_avg else tokens
        counts = {"nsentences": sentences, "ntokens": tokens, "sample_size": size}
        logged = {
            name: value.clone() if torch.is_tensor(value) else counts[name]
            for name, value in recorded.logged.items()
        }
        return recorded.loss, logged.get("sample_size", size), logged

    def _record(self, sample: dict[str, Any]) -> Recorded:
        inputs = {name: tensor.clone() for name, tensor in sample["net_input"].items()}
        fixed = {**sample, "net_input": inputs, "target": sample["target"].clone()}
        scaled: Any = contextlib.nullcontext()
        if self.scaler is not None:  # a graph reads a tensor anew at each replay
            scaled = replaced(self.scaler, "loss_scale", self.loss_scale)
        with scaled:
            graph, (loss, logged) = record(lambda: self._run(fixed), self.first)
        self.first = self.first or graph
        return Recorded(fixed, graph, loss, logged)

    def _run(self, sample: dict[str, Any]) -> tuple[Tensor, dict[str, Any]]:
        """Compute loss and gradients; return the loss and what is logged."""
        for parameter in self.parameters:
            parameter.grad = None
        loss, _, logged = self.criterion(self.model, sample)
        self.optimizer.backward(loss)
        new = [parameter.grad for parameter in self.parameters]
        self.gradients = self.gradients or new
        if new is not self.gradients:
            torch._foreach_copy_(present(self.gradients), present(new))
        return loss.detach(), logged


def graphs_of(model: Any, criterion: Any, optimizer: Any, sample: dict[str, Any]) -> Graphs | None:
    """Return the graphs of a model that ``trains_by_graphs``; None for a shape's first batch.

    None for a model with hooks, as fairseq searches for a NaN: a graph does not run them.
    """
    if not getattr(model, "trains_by_graphs", False) or model._forward_hooks:
        return None
    if not hasattr(optimizer, "graphs"):
        optimizer.graphs = Graphs(model, criterion, optimizer)
    # What a first pass prepares, such as compiled kernels, cannot be recorded.
    return optimizer.graphs if optimizer.graphs.note(sample) else None


def record(run: Callable[[], Any], other: Any = None) -> tuple[Any, Any]:
    """Return a function's graph and result; memory is shared with ``other``, which is kept."""
    graph = torch.cuda.CUDAGraph()
    pool = None if other is None else other.pool()
    # Threads that load data may use the device meanwhile.
    with torch.cuda.graph(graph, pool, capture_error_mode="thread_local"):
        result = run()
    return graph, result


def tensors_of(sample: dict[str, Any]) -> list[Tensor]:
    """Return what a model and its loss read of a batch."""
    return [*sample["net_input"].values(), sample["target"]]


def shape_of(sample: dict[str, Any]) -> object:
    return *sample["net_input"], *((tensor.shape, tensor.dtype) for tensor in tensors_of(sample))


def present(gradients: list[Tensor | None]) -> list[Tensor]:
    """Return those that are not None; which parameters have a gradient depends on no shape."""
    return [gradient for gradient in gradients if gradient is not None]
