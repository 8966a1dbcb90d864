"""``--encoder cspan``: semantic self attention, then a Bi-LSTM with positional self attention.

Jiang et al., 2020, "Cascaded Semantic and Positional Self-Attention Network for Document
Classification", eq. 4 to 9 and Figure 2. Query, key and value are the input itself.
"""

from argparse import Namespace

from torch import Tensor, nn

from fairseq_posattn.attention.call import Attended, map_context
from fairseq_posattn.attention.cpu import drop
from fairseq_posattn.attention.mechanism import AttentionFunction, check_choice
from fairseq_posattn.attention.positions import with_positions
from fairseq_posattn.attention.rpr import RelativePositionAttention
from fairseq_posattn.attention.san import dot_product_attention
from fairseq_posattn.model.encoders.recurrent import build_bilstm
from fairseq_posattn.model.mechanisms import select_implementation

# Table 5 and Figure 2: (a) no positions, (b) sinusoidal positions, (c) relative positions, (d) the
# Bi-LSTM beside the attention, (e) the Bi-LSTM after it. "parallel" is (d) with a second self
# attention over the Bi-LSTM, as in (e).
WITH_LSTM = ("parallel_lstm", "parallel", "cascaded")
FUSIONS = ("none", "position", "relative_position", *WITH_LSTM)


def unprojected_attention(
    x: Tensor, key_padding_mask: Tensor | None, impl: str, need_weights: bool = False
) -> Attended:
    """Return ``softmax(X X' / sqrt(C)) X``, ``[B, T, C]`` (eq. 4), and weights ``[B, 1, T, T]``."""
    x = x.unsqueeze(1)  # [B, 1, T, C]: one head
    attended = dot_product_attention(
        x, x, x, key_padding_mask=key_padding_mask, impl=impl, need_weights=need_weights
    )
    return map_context(lambda context: context.squeeze(1), attended)


class SemanticPositionalAttention(nn.Module):
    """CSPAN before its pooling, ``[B, T, C]`` to ``[B, T, C]``.

    ``S = LN(attention(D))``, ``P = LN(attention(BiLSTM(S)))``, ``S + P``, where D is the input.
    The Bi-LSTM has C / 2 features per direction, so that S and P can be added; ``cascaded`` is the
    paper's model. In ``parallel`` the input of the Bi-LSTM is D, in ``parallel_lstm`` P is also the
    Bi-LSTM's states. Other ``FUSIONS`` have no Bi-LSTM and return S. Without ``residual`` (eq. 9) P
    is the result (Table 3). Dropout acts on S, on P and between layers of the Bi-LSTM.
    """

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        check_hidden_dim("cspan", cfg, dim)
        self.fusion = fusion = str(cfg.cspan_fusion)
        check_choice("fusion", fusion, FUSIONS)
        self.residual = not cfg.cspan_no_residual
        self.dropout = cfg.dropout
        self.impl = select_implementation(dot_product_attention, cfg)
        self.output_dim = dim
        self.semantic_norm = nn.LayerNorm(dim)
        self.is_relative = fusion == "relative_position"
        if self.is_relative:
            self.relative = RelativePositionAttention(dim, 1, cfg.rpr_max_distance)
        else:
            self.semantic_attention = AttentionFunction(unprojected_attention)
        self.attends_twice = fusion in ("parallel", "cascaded")
        self.lstm = None
        if fusion in WITH_LSTM:
            self.lstm = build_bilstm(dim, dim, cfg.lstm_layers, cfg.dropout)
        if self.attends_twice:
            self.positional_attention = AttentionFunction(unprojected_attention)
            self.positional_norm = nn.LayerNorm(dim)

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        if self.is_relative:
            heads = [tokens.unsqueeze(1)] * 3  # [B, 1, T, C] each
            attended = self.relative(tokens, *heads, key_padding_mask=key_padding_mask).squeeze(1)
        else:
            placed = with_positions(tokens) if self.fusion == "position" else tokens
            attended = self.semantic_attention(placed, key_padding_mask, self.impl)
        semantic = drop(self.semantic_norm(attended), self.dropout, self.training)  # S
        if self.lstm is None:
            return semantic
        positional = self.lstm(semantic if self.fusion == "cascaded" else tokens, key_padding_mask)
        if self.attends_twice:
            attended = self.positional_attention(positional, key_padding_mask, self.impl)
            positional = self.positional_norm(attended)  # P
        positional = drop(positional, self.dropout, self.training)
        return semantic + positional if self.residual else positional


def check_hidden_dim(encoder: str, cfg: Namespace, dim: int) -> None:
    """Raise ValueError if ``--encoder-hidden-dim`` differs from the encoder's ``dim`` features."""
    if cfg.encoder_hidden_dim not in (0, dim):
        fix = f"--encoder {encoder} has as many features as a token, {dim}; remove the flag"
        raise ValueError(f"--encoder-hidden-dim {cfg.encoder_hidden_dim}: {fix}")
