"""Attention of a few queries to 512 or 1,024 stored keys on a CPU.

For these numbers of keys oneDNN takes up to twice as long per key as for others. Cross attention
stores them in blocks, whose matmuls take half to three quarters of that time.
"""

from torch import Tensor

from fairseq_posattn.attention.call import Attended, Call
from fairseq_posattn.attention.cpu import goes_to_onednn
from fairseq_posattn.attention.softmax import block_padding, scaled_scores, softmax_attention

SLOW = 512  # oneDNN is slow for its multiples
BLOCK = 64


def should_block(query: Tensor, key: Tensor) -> bool:
    """Return whether the scores of ``[B, H, Tq, D]`` and ``[B, H, Tk, D]`` are faster in blocks."""
    return key.size(2) % SLOW == 0 and goes_to_onednn(query, key.transpose(2, 3))


def block_keys(key: Tensor) -> Tensor:
    """Return a copy of the keys ``[B, H, Tk, D]`` as ``[B, H, Tk / 64, D, 64]``."""
    blocks: Tensor = key.unflatten(2, (-1, BLOCK)).transpose(3, 4)
    return blocks.contiguous()


def attend_to_blocks(call: Call, query: Tensor, blocks: Tensor, value: Tensor) -> Attended:
    """Return dot-product attention to the keys of :func:`block_keys`."""
    queries = query.unsqueeze(2).expand(-1, -1, blocks.size(2), -1, -1)
    scores = scaled_scores(queries, blocks.transpose(3, 4))  # [B, H, Tk / 64, Tq, 64]
    scores = scores.transpose(2, 3).flatten(3)
    return softmax_attention(call, scores, value, block_padding(None, call.key_padding_mask))
