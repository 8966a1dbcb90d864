"""``--encoder attention``: queries, keys, values and scaled dot-product attention, nothing else.

Without output projection, residual sum, layer norm or feed-forward part: both levels of NRMS (Wu et
al., 2019, section 3.1) and what MTSA and MPSAN compare with as multi-head attention.
"""

from argparse import Namespace

from torch import Tensor, nn

from fairseq_posattn.attention import Mechanism
from fairseq_posattn.encoders.flags import describe_layer
from fairseq_posattn.layers.mechanisms import build_san
from fairseq_posattn.layers.multihead import PackedLinear, check_heads, merge_heads, split_heads


class AttentionEncoder(nn.Module):
    """The contexts of all heads, side by side; it does not know the order of the words.

    Args:
        input_dim: features of a word.
        output_dim: H D, features of the result.
        num_heads: H.
        mechanism: what happens within the heads.
        bias: whether the maps to queries, keys and values have one.

    Attributes:
        output_dim: as given.

    Raises:
        ValueError: the heads do not divide the features.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        num_heads: int,
        mechanism: Mechanism,
        bias: bool = True,
    ):
        super().__init__()
        check_heads(output_dim, num_heads)
        self.num_heads = num_heads
        self.output_dim = output_dim
        self.qkv_proj = PackedLinear(input_dim, output_dim, parts=3, bias=bias)
        self.mechanism = mechanism

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, input_dim]`` to ``[B, T, H D]``; ``key_padding_mask`` bool ``[B, T]``."""
        parts = self.qkv_proj.split(words.transpose(0, 1))  # [T, B, H D] each
        heads = (split_heads(part, self.num_heads) for part in parts)  # [B, H, T, D] each
        context = self.mechanism(words, *heads, key_padding_mask=key_padding_mask)
        return merge_heads(context).transpose(0, 1)


def build(cfg: Namespace, dim: int) -> AttentionEncoder:
    hidden_dim = cfg.encoder_hidden_dim or dim
    return AttentionEncoder(
        dim,
        hidden_dim,
        cfg.encoder_attention_heads,
        build_san(cfg, describe_layer(cfg, hidden_dim, ("san",))),
        bias=not cfg.no_attention_bias,
    )
