"""Scaled dot-product attention, SAN (Vaswani et al., 2017; MANs eq. 1), and under named masks.

Under the masks of MPSAN and DiSAN, each head has its own mask.
"""

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from torch import Tensor
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.masks import MaskBank, check_mask, read_masks
from fairseq_posattn.attention.mechanism import LayerSizes, Mechanism, Shared
from fairseq_posattn.attention.softmax import biased_attention, sdpa_attention, separate_mask
from fairseq_posattn.common.flags import flag


@attention(sdpa=True, sdpa_on_cpu=True)
def dot_product_attention(
    call: Call, query: Query, key: Key, value: Value, **options: Unpack[Options]
) -> Attended:
    """Return ``softmax(Q K' / sqrt(D)) V``."""
    return attend(call, query, key, value)


def attend(call: Call, query: Tensor, key: Tensor, value: Tensor) -> Attended:
    """Return dot-product attention for a checked call."""
    square = query.size(-2) == key.size(-2)
    if call.impl == "sdpa" and call.causal and call.key_padding_mask is None and square:
        return sdpa_attention(query, key, value, call.dropout_p, causal=True)
    return biased_attention(call, query, key, value)


class DotProductAttention(Mechanism):
    """Scaled dot-product attention as a mechanism; it has no parameters."""

    function = staticmethod(dot_product_attention)


@attention(sdpa=True, causal=False, check=check_mask)
def masked_dot_product_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    mask: Annotated[Tensor, "~B H Tq Tk"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(Q K' / sqrt(D) + M) V``.

    Args:
        mask: float: 0, -inf or a penalty.
    """
    penalties, closed = separate_mask(mask.to(query.dtype))
    return biased_attention(call, query, key, value, bias=penalties, blocked=closed)


@dataclass
class Flags:
    attention_masks: str = flag(
        "past,future",
        "masks distributed over the heads, separated by commas: past, future, others, "
        "window:RADIUS, distance, scaled_distance, or sums such as past+scaled_distance",
        "masked",
    )


class MaskedDotProductAttention(Mechanism):
    """Dot-product attention under named masks as a mechanism; it has no parameters.

    Args:
        masks: see :meth:`~fairseq_posattn.attention.masks.MaskBank.for_heads`.
    """

    function = staticmethod(masked_dot_product_attention)
    sizes = ("num_heads",)
    flags = Flags

    def __init__(self, num_heads: int, masks: Sequence[str], **shared: Unpack[Shared]):
        super().__init__(**shared)
        self.masks = MaskBank.for_heads(masks, num_heads, self.causal)

    @classmethod
    def read_flags(
        cls, flags: Namespace, layer: LayerSizes, masks: str | None = None
    ) -> dict[str, Any]:
        sizes = cls.read_sizes(layer.embed_dim, layer.num_heads)
        flag = "--decoder-sublayers" if masks else "--attention-masks"
        heads = layer.num_heads, layer.causal
        return {**sizes, "masks": read_masks(flag, masks or flags.attention_masks, *heads)}

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        mask = self.masks.of_distance(query.size(-2), key.size(-2), device=query.device)
        return {"mask": mask.matrix(query.dtype)[None]}  # [1, H, Tq, Tk]
