"""Stored keys of encoded sentences, and attention of a beam search's hypotheses to them on a CPU.

Values that are the same at each step are computed once. For 512 or 1,024 keys oneDNN takes up to
twice as long per key as for others; stored in blocks, half to three quarters of that.
"""

from dataclasses import dataclass, replace

from torch import Tensor

from fairseq_posattn.attention.call import Attended, Call
from fairseq_posattn.attention.cpu import goes_to_onednn, matmul
from fairseq_posattn.attention.softmax import additive_mask, softmax_attention

SLOW = 512  # oneDNN is slow for its multiples
BLOCK = 64


@dataclass
class EncodedKeys:
    """Keys, values and padding of encoded sentences."""

    key: Tensor  # [B, H, D, S], or in blocks [B, H, S / 64, D, 64]
    value: Tensor  # [B, H, S, D]
    mask: Tensor | None = None  # 0, or -inf at padding, [B, 1, 1, S]
    is_plain: bool = True  # use attend(); else a mechanism attends to the vectors
    hypotheses: int = 1  # of each sentence, consecutive

    @property
    def vectors(self) -> tuple[Tensor, Tensor]:
        """Keys and values, ``[B, H, S, D]``."""
        return self.key.transpose(2, 3), self.value

    def select(self, sentences: Tensor) -> "EncodedKeys":
        """Return the sentences of these indices."""
        key, value = self.key.index_select(0, sentences), self.value.index_select(0, sentences)
        mask = None if self.mask is None else self.mask.index_select(0, sentences)
        return replace(self, key=key, value=value, mask=mask)

    def attend(self, query: Tensor, need_weights: bool) -> Attended:
        """Return dot-product attention of ``[B, H, Tq, D]``, without dropout."""
        query = query * query.size(-1) ** -0.5
        if self.key.dim() == 4:
            scores = matmul(query, self.key)
        else:
            scores = matmul(query.unsqueeze(2).expand(-1, -1, self.key.size(2), -1, -1), self.key)
            scores = scores.transpose(2, 3).flatten(3)  # of [B, H, S / 64, Tq, 64]
        if self.mask is not None:
            scores = scores.add_(self.mask)  # in an eighth of masked_fill_'s time
        return softmax_attention(Call(need_weights=need_weights), scores, self.value)


def store_encoded(query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None) -> EncodedKeys:
    """Return a copy of keys and values ``[B, H, S, D]`` for such queries ``[B, H, Tq, D]``.

    ``padding`` is bool ``[B, S]``, True where padded; no sentence is padding alone.
    """
    mask = None if padding is None else additive_mask(padding[:, None, None], key.dtype)
    key = key.contiguous()  # else its transposed copy takes twice to five times as long
    if key.size(2) % SLOW == 0 and goes_to_onednn(query, key.transpose(2, 3)):
        key = key.unflatten(2, (-1, BLOCK))
    return EncodedKeys(key.transpose(-2, -1).contiguous(), value.contiguous(), mask)
