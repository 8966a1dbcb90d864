"""Rotary position embedding, RoPE: queries and keys are rotated by angles that grow with position.

Su et al., 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", eq. 16 and 34.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.positions import waves
from fairseq_posattn.attention.san import attend
from fairseq_posattn.common.flags import flag


@attention(sdpa=True, sdpa_on_cpu=True)
def rotary_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    *,
    base: float = 10000.0,
    rotated_keys: bool = False,
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(A) V``, ``A[t, s] = (R_t q_t) (R_s k_s) / sqrt(D)`` (eq. 16).

    Args:
        base: feature pair m turns by ``base^(-2m/D)`` per position (odd D less 1); default 10,000.
        rotated_keys: the keys are rotated already (:func:`rotate`), as in a cache; default False.
    """
    key = key if rotated_keys else rotate(key, 0, base)
    return attend(call, rotate(query, key.size(-2) - query.size(-2), base), key, value)


def rotate(x: Tensor, start: int, base: float = 10000.0) -> Tensor:
    """Return ``R_t x_t`` of vectors ``[..., T, D]`` at the positions from ``start`` on (eq. 34)."""
    # In float32 at least; the last of an odd number of features is not rotated.
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    pairs = x.size(-1) // 2
    sine, cosine = waves(start, x.size(-2), 2 * pairs, x.device, wide.dtype, base=base)
    first, second = wide[..., : 2 * pairs].unflatten(-1, (pairs, 2)).unbind(-1)
    turned = torch.stack([first * cosine - second * sine, second * cosine + first * sine], dim=-1)
    return torch.cat([turned.flatten(-2), wide[..., 2 * pairs :]], dim=-1).to(x.dtype)


@dataclass
class Flags:
    rope_base: float = flag(
        10000.0,
        "base of the angles; larger ones rotate more slowly and suit longer texts",
        "rope",
        more_than=0,
    )


class RotaryAttention(Mechanism):
    """Rotary attention as a mechanism; it has no parameters. Layers cache rotated keys."""

    function = staticmethod(rotary_attention)
    flags = Flags
    replaces_positions = True
    encodes_keys = True
    attributes = ("base", "rotated_keys")
    rotated_keys = True

    def __init__(self, base: float = 10000.0, **shared: Unpack[Shared]):
        super().__init__(**shared)
        self.base = base

    def encode_keys(self, hidden: Tensor, key: Tensor, start: int) -> dict[str, Tensor]:
        return {"key": rotate(key, start, self.base)}
