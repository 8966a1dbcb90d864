"""Attention of the Adapted Transformer, TENER.

Yan et al., 2019, "TENER: Adapting Transformer Encoder for Named Entity Recognition", eq. 16 to 19:
Transformer-XL's four terms with the sinusoid of the signed distance itself, and no ``sqrt(D)``.
"""

from typing import Annotated

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.features import attend_by_features, expand_waves
from fairseq_posattn.attention.mechanism import Mechanism, Shared
from fairseq_posattn.attention.positions import relative_sinusoids
from fairseq_posattn.attention.transformer_xl import relative_attention


@attention(sdpa=True, sdpa_on_cpu=True)
def adapted_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    content_bias: Annotated[Tensor, "H D"],
    position_bias: Annotated[Tensor, "H D"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(A) V``, ``A[t, j] = (q_t + u) k_j + (q_t + v) R_{t-j}`` (eq. 18 and 19).

    ``u`` is ``content_bias``, ``v`` is ``position_bias``. ``sdpa`` has no tensor of all pairs: the
    addition theorems expand a wave of ``t - j`` into features of t times features of j.
    """
    if call.impl == "sdpa":
        content, position = (query + b[:, None] for b in (content_bias, position_bias))
        query, key = expand_waves(content, position, key)
        return attend_by_features(call, query, key, value)
    (length, features), keys = query.shape[-2:], key.size(-2)
    # [Tq+Tk-1, D], eq. 17
    sinusoids = relative_sinusoids(length, keys, features, query.device, query.dtype)
    tensors = query, key, value, sinusoids, content_bias, position_bias
    return relative_attention(call, *tensors, scaled=False)


class AdaptedAttention(Mechanism):
    """TENER's attention with its parameters ``u`` and ``v``, initialized Xavier normal."""

    function = staticmethod(adapted_attention)
    sizes = ("embed_dim", "num_heads")
    projects_key = False  # eq. 16: the key is the layer's input
    replaces_positions = True
    attributes = ("content_bias", "position_bias")

    def __init__(self, embed_dim: int, num_heads: int, **shared: Unpack[Shared]):
        super().__init__(**shared)
        head_dim = embed_dim // num_heads
        self.content_bias = nn.Parameter(torch.empty(num_heads, head_dim))  # u
        self.position_bias = nn.Parameter(torch.empty(num_heads, head_dim))  # v
        nn.init.xavier_normal_(self.content_bias)
        nn.init.xavier_normal_(self.position_bias)
