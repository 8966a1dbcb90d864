"""``--encoder transformer``, layers of ``--encoder-sublayers``, and ``--encoder attention``.

The latter has query, key and value projections and dot-product attention, no more: no output
projection, residual connection, layer norm or feed-forward sublayer. It is both levels of NRMS (Wu
et al., 2019) and, with sinusoidal positions (MTSA section 4), the multi-head attention that MTSA
and MPSAN compare with.
"""

from argparse import Namespace
from collections.abc import Sequence

from torch import Tensor, nn

from fairseq_posattn.attention.headwise import glorot_linear, map_to_heads
from fairseq_posattn.attention.passes import model_pass
from fairseq_posattn.attention.positions import with_positions
from fairseq_posattn.model import mechanisms
from fairseq_posattn.model.multihead import PackedLinear, merge_heads
from fairseq_posattn.model.transformer_layer import EncoderLayer, parse_sublayers


class TransformerEncoder(nn.Module):
    """Transformer layers of C = ``output_dim`` features, after a linear layer if ``dim`` is not C.

    Sinusoids are added to the scaled input, unless a sublayer replaces positions.
    """

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        self.output_dim = cfg.encoder_hidden_dim or dim
        sublayers = cfg.encoder_sublayers
        names = parse_sublayers(sublayers, flag="--encoder-sublayers", cross=False, ffn_last=False)
        layer = describe_encoder_layer(cfg, self.output_dim, names)
        layers = [EncoderLayer(layer, cfg) for _ in range(cfg.encoder_layers)]
        self.input_map = glorot_linear(dim, self.output_dim) if dim != self.output_dim else None
        self.layers = nn.ModuleList(layers)
        is_placed = not mechanisms.replace_positions(names)
        self.positions = is_placed and not cfg.no_token_positional_embeddings
        self.scale = self.output_dim**0.5 if str(cfg.embedding_scale) == "sqrt" else 1.0
        self.layer_norm = nn.LayerNorm(self.output_dim) if cfg.encoder_normalize_before else None

    @model_pass
    def forward(self, tokens: Tensor, key_padding_mask: Tensor) -> Tensor:
        x = tokens if self.input_map is None else self.input_map(tokens)  # [B, T, C]
        if self.positions:
            x = with_positions(self.scale * x)
        x = x.transpose(0, 1)  # [T, B, C]
        for layer in self.layers:
            x = layer(x, key_padding_mask)
        x = x.transpose(0, 1)
        return x if self.layer_norm is None else self.layer_norm(x)


def describe_encoder_layer(
    cfg: Namespace, hidden_dim: int, names: Sequence[str]
) -> mechanisms.LayerDescription:
    """Return the description of a layer of C = ``hidden_dim`` features with these sublayers."""
    heads, features = cfg.encoder_attention_heads, "features, --encoder-hidden-dim or a token's"
    if hidden_dim % heads:
        need = f"must divide the encoder's {hidden_dim} {features}"
        raise ValueError(f"--encoder-attention-heads {heads}: {need}")
    sizes = {"embed_dim": hidden_dim, "ffn_embed_dim": cfg.encoder_ffn_embed_dim}
    norm = cfg.encoder_normalize_before
    side = Namespace(attention_heads=heads, normalize_before=norm, **sizes)
    return mechanisms.describe_layer(cfg, side, names, max_positions=cfg.max_positions)


class AttentionEncoder(nn.Module):
    """Concatenated contexts of all heads, ``output_dim`` features.

    Without ``positions``, sinusoids that are added to the input, token order has no effect.
    ``map_dropout`` zeroes features before a projection, drawn per head.
    """

    def __init__(self, cfg: Namespace, dim: int):
        super().__init__()
        self.num_heads = cfg.encoder_attention_heads
        self.map_dropout = mechanisms.get_linear_dropout(cfg)
        self.positions = cfg.attention_positions and not cfg.no_token_positional_embeddings
        self.output_dim = cfg.encoder_hidden_dim or dim
        layer = describe_encoder_layer(cfg, self.output_dim, ["san"])
        self.qkv_proj = PackedLinear(dim, self.output_dim, parts=3, bias=not cfg.no_attention_bias)
        self.mechanism = mechanisms.MECHANISMS["san"](cfg, layer)

    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        if self.positions:
            tokens = with_positions(tokens)
        packed = map_to_heads(
            self.qkv_proj, tokens, 3 * self.num_heads, self.map_dropout, self.training
        )  # [B, 3 H, T, D]
        parts = packed.chunk(3, dim=1)  # [B, H, T, D] each
        context = self.mechanism(tokens, *parts, key_padding_mask=key_padding_mask)
        return merge_heads(context).transpose(0, 1)
