"""Affine maps that multiply whole numbers of 8 bits, for a CPU."""

import warnings
from functools import partial

import torch
from torch import Tensor, nn

from fairseq_posattn.attention.cpu.linear import Linear

LARGEST = 127
# Where a processor adds two products in 16 bits, inputs have 7 bits, so that none overflows.
REDUCES = not getattr(torch.cpu, "_is_vnni_supported", lambda: False)()


@torch.no_grad()
def round_maps(model: nn.Module) -> int:
    """Let the maps of a model multiply so; it is for asking alone then.

    Weights have a scale for each feature of the output, inputs one for each call. Embeddings,
    attention and layer norms stay float32.

    Returns:
        how many maps there are: none where they are not the plugin's.
    """
    maps = [module for module in model.modules() if isinstance(module, Linear)]
    for module in maps:
        module.product = partial(_product, packed=_packed(module))  # type: ignore[method-assign]
    return len(maps)


def _product(x: Tensor, packed: torch.ScriptObject) -> Tensor:
    product: Tensor = torch.ops.quantized.linear_dynamic(x, packed, reduce_range=REDUCES)
    return product


def _packed(module: Linear) -> torch.ScriptObject:
    scales = module.weight.abs().amax(1).clamp(min=1e-12) / LARGEST  # [output]
    zeros = torch.zeros_like(scales, dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a later PyTorch will have it elsewhere
        weight = torch.quantize_per_channel(module.weight, scales, zeros, 0, torch.qint8)
    packed: torch.ScriptObject = torch.ops.quantized.linear_prepack(weight, module.bias)
    return packed
