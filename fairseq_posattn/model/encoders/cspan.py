"""CSPAN's cascade: self attention over meanings, a Bi-LSTM for their order, and their sum.

Jiang et al., 2020, "Cascaded Semantic and Positional Self-Attention Network for Document
Classification", eq. 4 to 9 and Figure 2. Nothing is projected: query, key and value are the same.
"""

from argparse import Namespace

from torch import Tensor, nn

from fairseq_posattn.attention.call import Attended, check_choice, map_context
from fairseq_posattn.attention.cpu.dropout import drop
from fairseq_posattn.attention.mechanism import AttentionFunction
from fairseq_posattn.attention.rpr import RelativePositionAttention
from fairseq_posattn.attention.san import dot_product_attention
from fairseq_posattn.attention.sinusoid import with_positions
from fairseq_posattn.model.encoders.bilstm import BiLSTM
from fairseq_posattn.model.encoders.flags import require_width_of_words
from fairseq_posattn.model.mechanisms import implementation_of

# Table 5 and Figure 2: (a) without positions, (b) positions added to the words, (c) relative
# positions in the attention, (d) the Bi-LSTM beside the attention, (e) the Bi-LSTM after it. The
# figure has six boxes of self attention for the five of them: one in (d), two in (e). "parallel"
# is (d) with a second one, over the Bi-LSTM, as in (e).
FUSIONS = ("none", "position", "relative_position", "parallel_lstm", "parallel", "cascaded")


def unprojected_attention(
    x: Tensor,
    key_padding_mask: Tensor | None = None,
    impl: str = "auto",
    need_weights: bool = False,
) -> Attended:
    """``softmax(X X' / sqrt(C)) X`` (eq. 4 before the layer norm).

    Args:
        x: ``[B, T, C]``.
        key_padding_mask: bool ``[B, T]``, True where padded.
        impl, need_weights: see :func:`~fairseq_posattn.attention.san.dot_product_attention`.

    Returns:
        ``[B, T, C]``, or ``([B, T, C], weights [B, 1, T, T])``.
    """
    x = x.unsqueeze(1)  # [B, 1, T, C]: one head
    attended = dot_product_attention(
        x, x, x, key_padding_mask=key_padding_mask, impl=impl, need_weights=need_weights
    )
    return map_context(lambda context: context.squeeze(1), attended)


class SemanticPositionalAttention(nn.Module):
    """CSPAN before its pooling.

    ``S = LN(attention(D))``, ``P = LN(attention(BiLSTM(S)))``, ``S + P``, where D are the words.
    The Bi-LSTM has C / 2 features each way, so that the two can be added.

    Args:
        embed_dim: C.
        layers: of the Bi-LSTM; 1 in the base model, 3 in the big one.
        fusion: how meanings and positions meet, one of ``FUSIONS``. ``cascaded`` is the model;
            ``parallel`` gives the words, not S, to the Bi-LSTM, and ``parallel_lstm`` has the
            Bi-LSTM's states themselves for P. The others have no Bi-LSTM and end at S.
        residual: whether S is added to P (eq. 9). Without it P is the result (Table 3).
        max_distance: of the relative positions, beyond which they are the same.
        dropout: probability of dropping a feature between layers of the Bi-LSTM and of S and P.
        impl: see :func:`unprojected_attention`.

    Attributes:
        output_dim: C.

    Raises:
        ValueError: the fusion's name is unknown, or the features cannot be halved for a Bi-LSTM.
    """

    def __init__(
        self,
        embed_dim: int,
        layers: int = 1,
        fusion: str = "cascaded",
        residual: bool = True,
        max_distance: int = 16,
        dropout: float = 0.0,
        impl: str = "auto",
    ):
        super().__init__()
        check_choice("fusion", fusion, FUSIONS)
        self.fusion = fusion
        self.residual = residual
        self.dropout = dropout
        self.impl = impl
        self.output_dim = embed_dim
        self.semantic_norm = nn.LayerNorm(embed_dim)
        self.relative = self.semantic_attention = self.lstm = None
        self.positional_attention = self.positional_norm = None
        if fusion == "relative_position":
            self.relative = RelativePositionAttention(embed_dim, 1, max_distance)
        else:
            self.semantic_attention = AttentionFunction(unprojected_attention)
        if fusion in ("parallel_lstm", "parallel", "cascaded"):
            self.lstm = BiLSTM(embed_dim, embed_dim, layers, dropout)
        if fusion in ("parallel", "cascaded"):
            self.positional_attention = AttentionFunction(unprojected_attention)
            self.positional_norm = nn.LayerNorm(embed_dim)

    def forward(self, words: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """``[B, T, C]``, padded on the right if at all, to ``[B, T, C]``.

        Args:
            key_padding_mask: bool ``[B, T]``, True where padded.
        """
        semantic = self.semantic_norm(self._attend_to_words(words, key_padding_mask))  # S
        semantic = drop(semantic, self.dropout, self.training)
        if self.lstm is None:
            return semantic
        positional = self.lstm(semantic if self.fusion == "cascaded" else words, key_padding_mask)
        if self.positional_norm is not None:
            attended = self.positional_attention(positional, key_padding_mask, self.impl)
            positional = self.positional_norm(attended)  # P
        positional = drop(positional, self.dropout, self.training)
        return semantic + positional if self.residual else positional

    def _attend_to_words(self, words, key_padding_mask):
        if self.relative is not None:
            head = words.unsqueeze(1)  # [B, 1, T, C]
            return self.relative(
                words, head, head, head, key_padding_mask=key_padding_mask
            ).squeeze(1)
        if self.fusion == "position":
            words = with_positions(words)
        return self.semantic_attention(words, key_padding_mask, self.impl)


def build(cfg: Namespace, dim: int) -> SemanticPositionalAttention:
    require_width_of_words("cspan", cfg, dim)
    return SemanticPositionalAttention(
        dim,
        layers=cfg.lstm_layers,
        fusion=str(cfg.cspan_fusion),
        residual=not cfg.cspan_no_residual,
        max_distance=cfg.rpr_max_distance,
        dropout=cfg.dropout,
        impl=implementation_of(dot_product_attention, cfg),
    )
