"""Mask attention under any mask, and the static mask attention network, SMAN.

Fan et al., 2021, "Mask Attention Networks: Rethinking and Strengthen Transformer" (MANs), eq. 4 and
11, section 4.2.
"""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.types import Device
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.dman import read_activation
from fairseq_posattn.attention.mechanism import LayerSizes, Mechanism, Shared
from fairseq_posattn.attention.positions import signed_distances, toeplitz_matrix
from fairseq_posattn.attention.softmax import biased_attention
from fairseq_posattn.common.flags import flag


@attention(sdpa=True, causal=False)
def mask_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    mask: Annotated[Tensor, "~B H Tq Tk"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``M exp(Q K' / sqrt(D))``, normalized over the keys, times V (MANs eq. 4).

    Args:
        mask: in [0, 1]. Entries of 0 get no gradient.
    """
    closed = mask <= 0
    log_mask = mask.masked_fill(closed, 1.0).log().to(query.dtype)
    return biased_attention(call, query, key, value, bias=log_mask, blocked=closed)


@attention(sdpa=True)
def static_mask_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    *,
    radius: float | None = 4,
    **options: Unpack[Options],
) -> Attended:
    """Return dot-product attention to the keys where :func:`static_mask` is 1 (MANs eq. 11)."""
    sizes = query.size(-2), key.size(-2), radius
    mask = static_mask(*sizes, call.key_padding_mask, call.causal, query.device)
    return biased_attention(call, query, key, value, blocked=mask == 0)


def static_mask(
    query_length: int,
    key_length: int,
    radius: float | None,
    key_padding_mask: Tensor | None = None,
    causal: bool = False,
    device: Device = None,
) -> Tensor:
    """Return ``SM[t, s]``: 1 where ``|t-s| <= b``, else 0 (MANs eq. 11).

    It is float, broadcastable to ``[B, H, Tq, Tk]``. ``radius`` is b; None is the b of SMAN1,
    ``sqrt(L / 2)``. L is the number of keys that the query may see: the sentence's length, or where
    ``causal`` the length of the prefix.
    """
    distances = signed_distances(query_length, key_length, device)
    distances = toeplitz_matrix(distances, query_length, key_length)[None, None]  # [1, 1, Tq, Tk]
    visible = distances >= 0 if causal else torch.ones_like(distances, dtype=torch.bool)
    if key_padding_mask is not None:
        visible = visible & ~key_padding_mask[:, None, None, :]
    reach = (visible.sum(-1, keepdim=True).float() / 2).sqrt() if radius is None else radius
    return (visible & (distances.abs() <= reach)).float()


@dataclass
class Flags:
    sman_radius: str = flag(
        "4", "tokens seen per direction; 'sqrt': square root of half the sentence's length", "sman"
    )


class StaticMaskAttention(Mechanism):
    """SMAN: attention within a fixed distance, instead of DMAN (MANs section 4.2).

    Args:
        radius: b of eq. 11, default 4; None for SMAN1's (:func:`static_mask`).
        activation: of the context, the F of eq. 5; None for none.
    """

    function = staticmethod(static_mask_attention)
    flags = Flags
    attributes = ("radius",)

    def __init__(
        self,
        radius: float | None = 4,
        activation: Callable[[Tensor], Tensor] | None = F.relu,
        **shared: Unpack[Shared],
    ):
        super().__init__(**shared)
        self.radius = radius
        self.activation = activation

    @classmethod
    def read_flags(cls, flags: Namespace, layer: LayerSizes) -> dict[str, Any]:
        radius = flags.sman_radius
        if radius != "sqrt" and not radius.isdecimal():
            raise ValueError(f"--sman-radius {radius}: must be a number or 'sqrt'")
        radius = None if radius == "sqrt" else int(radius)
        return {"radius": radius, "activation": read_activation(flags)}
