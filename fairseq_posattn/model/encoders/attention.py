"""``--encoder attention``: queries, keys, values and scaled dot-product attention, nothing else.

Without output projection, residual sum, layer norm or feed-forward part: both levels of NRMS (Wu et
al., 2019) and, with sinusoids of the positions (MTSA section 4), what MTSA and MPSAN compare with
as multi-head attention.
"""

from argparse import Namespace

from torch import Tensor, nn

from fairseq_posattn.attention import Mechanism
from fairseq_posattn.attention.headwise import map_to_heads
from fairseq_posattn.attention.sinusoid import with_positions
from fairseq_posattn.model.encoders.flags import describe_layer, map_dropout_of
from fairseq_posattn.model.mechanisms import build_san
from fairseq_posattn.model.multihead import PackedLinear, check_heads, merge_heads


class AttentionEncoder(nn.Module):
    """The contexts of all heads, side by side; without positions it does not know the words' order.

    Args:
        input_dim: features of a word.
        output_dim: H D, features of the result.
        num_heads: H.
        mechanism: what happens within the heads.
        bias: whether the maps to queries, keys and values have one.
        map_dropout: probability of dropping a feature before these maps, of each map and each head
            by itself.
        positions: whether sinusoids of the positions are added to the words.

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
        map_dropout: float = 0.0,
        positions: bool = False,
    ):
        super().__init__()
        check_heads(output_dim, num_heads)
        self.num_heads = num_heads
        self.map_dropout = map_dropout
        self.positions = positions
        self.output_dim = output_dim
        self.qkv_proj = PackedLinear(input_dim, output_dim, parts=3, bias=bias)
        self.mechanism = mechanism

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, input_dim]`` to ``[B, T, H D]``; ``key_padding_mask`` bool ``[B, T]``."""
        if self.positions:
            words = with_positions(words)
        packed = map_to_heads(
            self.qkv_proj, words, 3 * self.num_heads, self.map_dropout, self.training
        )  # [B, 3 H, T, D]
        parts = packed.chunk(3, dim=1)  # [B, H, T, D] each
        context = self.mechanism(words, *parts, key_padding_mask=key_padding_mask)
        return merge_heads(context).transpose(0, 1)


def build(cfg: Namespace, dim: int) -> AttentionEncoder:
    hidden_dim = cfg.encoder_hidden_dim or dim
    return AttentionEncoder(
        dim,
        hidden_dim,
        cfg.encoder_attention_heads,
        build_san(cfg, describe_layer(cfg, hidden_dim, ("san",))),
        bias=not cfg.no_attention_bias,
        map_dropout=map_dropout_of(cfg),
        positions=cfg.attention_positions and not cfg.no_token_positional_embeddings,
    )
