"""A model whose affine maps multiply whole numbers of 8 bits, for a CPU.

from fairseq_posattn.hugging_face.int8 import in_int8

model = in_int8(AutoModelForSeq2SeqLM.from_pretrained("iwslt14-de-en"))
"""

import copy
import warnings
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor
from transformers import PreTrainedModel

from fairseq_posattn.attention.linear import Linear

Model = TypeVar("Model", bound=PreTrainedModel)
LARGEST = 127


@torch.no_grad()
def in_int8(model: Model) -> Model:
    """A copy that is for asking alone; embeddings, attention and layer norms stay float32.

    Weights have a scale for each feature of the output, inputs one for each call.
    """
    copied = copy.deepcopy(model).eval()
    for module in copied.modules():
        if isinstance(module, Linear):
            module.product = partial(_product, packed=_packed(module))
    return copied


def _product(x: Tensor, packed: torch.ScriptObject) -> Tensor:
    return torch.ops.quantized.linear_dynamic(x, packed, reduce_range=True)


def _packed(module: Linear) -> torch.ScriptObject:
    scales = module.weight.abs().amax(1).clamp(min=1e-12) / LARGEST  # [output]
    zeros = torch.zeros_like(scales, dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a later PyTorch will have it elsewhere
        weight = torch.quantize_per_channel(module.weight, scales, zeros, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(weight, module.bias)
