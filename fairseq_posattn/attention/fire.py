"""FIRE: a network maps each distance, as a share of the query's position, to a bias.

Li et al., 2024, "Functional Interpolation for Relative Positions Improves Long Context
Transformers", eq. 6 to 8. The paper's is causal. Else, an extension, distances are absolute and
shares of the largest that the query can see.
"""

from typing import Annotated, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.types import Device
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Arguments, Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.positions import signed_distances, toeplitz_matrix
from fairseq_posattn.attention.softmax import biased_attention

HIDDEN, SCALE, THRESHOLD, EPSILON = 32, 0.1, 512.0, 1e-6  # of the paper's appendix


@attention(sdpa=True)
def fire_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    scale: Annotated[Tensor, ""],
    threshold: Annotated[Tensor, ""],
    hidden_weight: Annotated[Tensor, "W"],
    hidden_bias: Annotated[Tensor, "W"],
    output_weight: Annotated[Tensor, "H W"],
    output_bias: Annotated[Tensor, "H"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(A) V``, ``A[t, s] = q_t k_s / sqrt(D) + f_h(psi(t-s) / psi(max(L, t)))``.

    ``psi(x) = log(|c| x + 1)``; f has one hidden layer with ReLU. ``scale`` is c, ``threshold`` L.
    """
    lengths = query.size(-2), key.size(-2)
    wide = torch.promote_types(query.dtype, torch.float32)
    distance = signed_distances(*lengths, query.device).abs().to(wide)
    c = scale.to(wide).abs()
    numerator = toeplitz_matrix((c * distance).log1p(), *lengths)  # [Tq, Tk]
    furthest = furthest_distances(call, *lengths, query.device)
    whole = (c * torch.maximum(furthest.to(wide), threshold.to(wide).abs())).log1p() + EPSILON
    shares = (numerator / whole[..., None])[:, None]  # [B, 1, Tq, Tk]
    bias = output_bias.to(wide)[:, None, None]
    parts = (x.to(wide).unbind(-1) for x in (hidden_weight, hidden_bias, output_weight))
    # One unit at a time: no tensor has a query, a key and the hidden features.
    for weight, shift, heads in zip(*parts, strict=True):
        bias = bias + heads[:, None, None] * F.relu(weight * shares + shift)
    return biased_attention(call, query, key, value, bias=bias)


def furthest_distances(call: Call, query_length: int, key_length: int, device: Device) -> Tensor:
    """Return the largest distance that each query can see in its sentence: ``[B or 1, Tq]``."""
    positions = torch.arange(key_length - query_length, key_length, device=device)[None]
    first, last = positions.new_zeros(1, 1), positions[:, -1:]
    if call.key_padding_mask is not None:
        kept = (~call.key_padding_mask).int()
        first = kept.argmax(-1, keepdim=True)  # [B, 1]
        last = key_length - 1 - kept.flip(-1).argmax(-1, keepdim=True)
    furthest = positions - first
    return (furthest if call.causal else torch.maximum(furthest, last - positions)).clamp(min=0)


class FunctionalBiasAttention(Mechanism):
    """FIRE with its network, c and L, initialized as in the paper's appendix.

    L is learned as a factor of 512: Adam, with steps of one size, would not move 512 itself.
    """

    function = staticmethod(fire_attention)
    sizes = ("num_heads",)
    replaces_positions = True

    def __init__(self, num_heads: int, **shared: Unpack[Shared]):
        super().__init__(**shared)
        self.num_heads = num_heads
        self.scale = nn.Parameter(torch.tensor(SCALE))  # c
        self.threshold_factor = nn.Parameter(torch.ones(()))  # of L, as by the authors
        self.hidden, self.output = nn.Linear(1, HIDDEN), nn.Linear(HIDDEN, num_heads)

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        network = {"hidden_weight": self.hidden.weight.squeeze(1), "hidden_bias": self.hidden.bias}
        network |= {"output_weight": self.output.weight, "output_bias": self.output.bias}
        threshold = THRESHOLD * self.threshold_factor
        return {"scale": self.scale, "threshold": threshold, **network}

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *options: Any) -> None:
        """Load parameters; checkpoints of development versions have L itself."""
        if f"{prefix}threshold" in state:
            state[f"{prefix}threshold_factor"] = state.pop(f"{prefix}threshold") / THRESHOLD
        super()._load_from_state_dict(state, prefix, *options)
