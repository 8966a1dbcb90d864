"""Attention of the Forgetting Transformer.

Lin et al., 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate", section 3: a gate
at each position lowers the scores of all keys before it. It is causal only.
"""

from dataclasses import replace
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from typing_extensions import Unpack

from fairseq_posattn.attention.call import Attended, Call, Key, Options, Query, Value
from fairseq_posattn.attention.declare import attention
from fairseq_posattn.attention.features import attend_by_features
from fairseq_posattn.attention.mechanism import Mechanism, Shared, check_causal
from fairseq_posattn.attention.pytorch import log_sigmoid
from fairseq_posattn.attention.softmax import biased_attention


@attention(sdpa=True, sdpa_on_cpu=True, causal=False)
def forgetting_attention(
    call: Call,
    query: Query,
    key: Key,
    value: Value,
    log_gate: Annotated[Tensor, "B H Tk"],
    **options: Unpack[Options],
) -> Attended:
    """Return ``softmax(A) V``, ``A[t, s] = q_t k_s / sqrt(D) + log f_{s+1} + ... + log f_t``.

    Args:
        log_gate: ``log f`` at the positions of the keys, at most 0.
    """
    call, wide = replace(call, causal=True), torch.promote_types(log_gate.dtype, torch.float32)
    total = log_gate.to(wide).cumsum(-1)  # [B, H, Tk]
    if call.impl == "sdpa":  # the total at the query is the same for all keys
        # A gate's gradient sums those of many keys, whose rounding to half precision adds up. The
        # pass without gradients of activation checkpointing has to draw the same dropout mask.
        dtype = wide if total.requires_grad or call.dropout_p else query.dtype
        q, k, v = (x.to(dtype) for x in (query, key, value))
        scaled = q * q.size(-1) ** -0.5
        with torch.autocast(query.device.type, enabled=False):
            return attend_by_features(call, scaled, k, v, -total).to(value.dtype)
    at_query = F.pad(total, (query.size(-2) - key.size(-2), 0))  # [B, H, Tq], at the last positions
    bias = at_query[..., None] - total[..., None, :]  # [B, H, Tq, Tk]
    return biased_attention(call, query, key, value, bias=bias)


class ForgettingAttention(Mechanism):
    """Attention with the forget gate ``f_t = sigmoid(w_h x_t + b_h)`` of the layer's input x.

    w is initialized as a linear layer's, b zero.
    """

    function = staticmethod(forgetting_attention)
    sizes = ("embed_dim", "num_heads")
    replaces_positions = True
    encodes_keys = True

    def __init__(self, embed_dim: int, num_heads: int, **shared: Unpack[Shared]):
        super().__init__(**shared)
        check_causal("forget", self.causal)
        self.gate = nn.Linear(embed_dim, num_heads)  # w and b
        nn.init.zeros_(self.gate.bias)

    def encode_keys(self, hidden: Tensor, key: Tensor, start: int) -> dict[str, Tensor]:
        return {"log_gate": log_sigmoid(self.gate(hidden)).transpose(1, 2)}
