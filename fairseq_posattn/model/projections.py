"""Linear layers for inference on a CPU: with packed weights, or in int8."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fairseq_posattn.attention import pytorch
from fairseq_posattn.attention.cpu import Linear, library

INT8_MAX = 127
# CPUs without VNNI add two int8 products in 16 bits: 7-bit inputs avoid overflow.
REDUCE_RANGE = not pytorch.has_vnni()
# Rows of the matmul for which weights are packed; other numbers are served as well.
PACKED_ROWS = 160
FEWEST_ROWS = 4
CHECKED_ROWS = (4, 7, 33, 161, 600)


@torch.no_grad()
def pack_linear_layers(model: nn.Module) -> None:
    """Store the weights of a float32 model on a CPU a second time, as the matmul reads them.

    Matmuls of some ten rows, as in beam search, take half to four fifths of the time. The model can
    no longer be trained; loading other weights undoes it. A layer stays as it is if MKL gives other
    results for its shape.
    """
    if not torch.backends.mkl.is_available():
        return
    agrees: dict[torch.Size, bool] = {}
    for layer in model.modules():
        if not isinstance(layer, Linear) or "product" in vars(layer):
            continue
        weight = layer.weight
        if weight.device.type == "cpu" and weight.dtype == torch.float32:
            product = _packed_product(layer)
            if weight.shape not in agrees:
                agrees[weight.shape] = _agrees(product, layer)
            if agrees[weight.shape]:
                layer.product = product  # type: ignore[method-assign, assignment]
                _undo_on_loading(layer)


def _undo_on_loading(layer: Any) -> None:
    """Have the layer multiply by its weights again once others are loaded."""
    layer.register_load_state_dict_post_hook(_use_weights)


def _use_weights(layer: nn.Module, incompatible_keys: Any) -> None:
    """Remove the product with packed or int8 weights, which are those before loading."""
    vars(layer).pop("product" if isinstance(layer, Linear) else "forward", None)


def _agrees(product: Callable[[Tensor], Tensor], layer: Linear) -> bool:
    """Compare packed weights with the layer: MKL promises one number of rows only."""
    if library() == "onednn":
        return True
    weight = layer.weight
    numbers = max(CHECKED_ROWS) * weight.size(1)
    x = torch.arange(numbers, dtype=torch.float32, device="cpu").sin()
    x = x.view(-1, weight.size(1))
    expected = F.linear(x, weight, layer.bias)
    tolerance = 1e-4 * expected.abs().max()
    return all(
        (product(x[:rows]) - expected[:rows]).abs().max() <= tolerance for rows in CHECKED_ROWS
    )


def _packed_product(layer: Linear) -> Callable[[Tensor], Tensor]:
    weight, bias = layer.weight.detach(), layer.bias
    if library() == "onednn":
        by_onednn = pytorch.pack_for_onednn(weight, PACKED_ROWS)
        return lambda x: pytorch.onednn_linear(x, by_onednn, bias)
    packed = pytorch.pack_for_mkl(weight, PACKED_ROWS)

    def product(x: Tensor) -> Tensor:
        rows = x.numel() // x.size(-1)
        if rows < FEWEST_ROWS:
            return F.linear(x, weight, bias)
        # PyTorch ignores weights packed for another number of rows. MKL uses them: see _agrees.
        return pytorch.mkl_linear(x, packed, weight, bias, rows)

    return product


@torch.no_grad()
def quantize_linear_layers(model: nn.Module) -> None:
    """Let a model's linear layers multiply in int8; the model can no longer be trained.

    Weights have a scale per output feature, inputs one per call. Embeddings, attention and layer
    norms stay float32. Where fairseq's own models use a weight without calling its layer, as in
    their encoder's attention, it stays float32, too. Loading other weights undoes it.
    """
    for layer in (module for module in model.modules() if isinstance(module, nn.Linear)):
        matmul = partial(pytorch.int8_linear, packed=_pack(layer), reduce_range=REDUCE_RANGE)
        setattr(layer, "product" if isinstance(layer, Linear) else "forward", matmul)
        _undo_on_loading(layer)


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
        bias = None if layer.bias is None else layer.bias.contiguous()  # its stride is ignored
        result: torch.ScriptObject = torch.ops.quantized.linear_prepack(weight, bias)
        return result
    finally:
        torch.backends.quantized.engine = engine
