"""int8 linear layers of an exported model, for CPUs.

model = in_int8(AutoModelForSeq2SeqLM.from_pretrained("iwslt14-de-en"))
"""

import copy
from typing import TypeVar

from transformers import PreTrainedModel

from fairseq_posattn.model.projections import quantize_linear_layers

__all__ = ["in_int8"]

Model = TypeVar("Model", bound=PreTrainedModel)


def in_int8(model: Model) -> Model:
    """Return a copy for inference; embeddings, attention and layer norms stay float32."""
    copied = copy.deepcopy(model).eval()
    quantize_linear_layers(copied)
    return copied
