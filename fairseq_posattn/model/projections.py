"""The output projection to logits, and int8 linear layers for CPUs."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from fairseq_posattn.attention.cpu import Linear, is_recorded, library, product

INT8_MAX = 127
# CPUs without VNNI add two int8 products in 16 bits: 7-bit inputs avoid overflow.
REDUCE_RANGE = not getattr(torch.cpu, "_is_vnni_supported", lambda: False)()


class OutputProjection(Linear):
    """Linear layer from features to logits, without bias; embeddings may share its weight.

    On a CPU the gradient of its weight owns its memory, so that PyTorch adds the gradient of the
    embeddings in place. PyTorch's linear layer returns a view, which costs a third such table.

    Args:
        features: C, features of the input.
        vocab_size: V, tokens of the dictionary.
    """

    def __init__(self, features: int, vocab_size: int, device: str | None = None):
        super().__init__(features, vocab_size, bias=False, device=device)

    def product(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or is_recorded() or torch.is_autocast_enabled("cpu"):
            return super().product(x)
        # torch has no types for apply
        logits: Tensor = _Logits.apply(x, self.weight)  # type: ignore[no-untyped-call]
        return logits


class _Logits(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x.flatten(0, -2), weight).view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight = ctx.needs_input_grad
        rows = gradient.flatten(0, -2)
        return (
            product(rows, weight.t()).view(x.shape) if needs_x else None,
            product(rows.t(), x.flatten(0, -2).t()) if needs_weight else None,
        )


# Rows of the matmul for which weights are packed; other numbers are served as well.
PACKED_ROWS = 160
FEWEST_ROWS = 4
CHECKED_ROWS = (4, 7, 33, 161, 600)


@torch.no_grad()
def pack_linear_layers(model: nn.Module) -> None:
    """Store the weights of a float32 model on a CPU a second time, as the matmul reads them.

    Matmuls of some ten rows, as in beam search, take half to four fifths of the time. The model can
    no longer be trained. A layer stays as it is if its shape gives other results when packed.
    """
    if not torch.backends.mkl.is_available():
        return
    is_right: dict[torch.Size, bool] = {}
    for layer in model.modules():
        if isinstance(layer, Linear) and "product" not in vars(layer):
            weight = layer.weight
            if weight.device.type == "cpu" and weight.dtype == torch.float32:
                product = _packed_product(layer)
                if weight.shape not in is_right:
                    is_right[weight.shape] = _agrees(product, layer)
                if is_right[weight.shape]:
                    layer.product = product  # type: ignore[method-assign]


def _agrees(product: Callable[[Tensor], Tensor], layer: Linear) -> bool:
    """Compare packed weights with the layer; MKL promises one number of rows only."""
    weight, bias = layer.weight, layer.bias
    for rows in CHECKED_ROWS:
        x = torch.arange(rows * weight.size(1), dtype=torch.float32).sin().view(rows, -1)
        expected = F.linear(x, weight, bias)
        if not torch.allclose(
            product(x), expected, rtol=1e-3, atol=1e-4 * float(expected.abs().max())
        ):
            return False
    return True


def _packed_product(layer: Linear) -> Callable[[Tensor], Tensor]:
    weight, bias = layer.weight.detach(), layer.bias
    if library() == "onednn":
        packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_ROWS)
        return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, PACKED_ROWS)

    def product(x: Tensor) -> Tensor:
        rows = x.numel() // x.size(-1)
        if rows < FEWEST_ROWS:
            return F.linear(x, weight, bias)
        # PyTorch ignores weights packed for another number of rows. MKL uses them: see _agrees.
        result: Tensor = torch.ops.mkl._mkl_linear(x, packed, weight, bias, rows)
        return result

    return product


@torch.no_grad()
def quantize_linear_layers(model: nn.Module) -> int:
    """Let a model's linear layers multiply in int8; the model can no longer be trained.

    Weights have a scale per output feature, inputs one per call. Embeddings, attention and layer
    norms stay float32. Where fairseq's own models use a weight without calling its layer, as in
    their encoder's attention, it stays float32, too.

    Returns:
        number of quantized layers.
    """
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    for layer in layers:
        matmul = partial(_int8_matmul, packed=_pack(layer))
        setattr(layer, "product" if isinstance(layer, Linear) else "forward", matmul)
    return len(layers)


def _int8_matmul(x: Tensor, packed: torch.ScriptObject) -> Tensor:
    output: Tensor = torch.ops.quantized.linear_dynamic(x, packed, reduce_range=REDUCE_RANGE)
    return output


def _pack(layer: nn.Linear) -> torch.ScriptObject:
    scales = layer.weight.abs().amax(1).clamp(min=1e-12) / INT8_MAX  # [output]
    zeros = torch.zeros_like(scales, dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch announces that quantization will move
        weight = torch.quantize_per_channel(layer.weight, scales, zeros, 0, torch.qint8)
    engine = torch.backends.quantized.engine
    if not REDUCE_RANGE and "onednn" in torch.backends.quantized.supported_engines:
        torch.backends.quantized.engine = "onednn"  # up to three times as fast as fbgemm
    try:
        packed: torch.ScriptObject = torch.ops.quantized.linear_prepack(weight, layer.bias)
    finally:
        torch.backends.quantized.engine = engine
    return packed
