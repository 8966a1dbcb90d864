"""``--encoder transformer``: Transformer layers of ``--encoder-sublayers``."""

from argparse import Namespace

from torch import Tensor, nn

from fairseq_posattn.attention.disan import glorot_linear
from fairseq_posattn.attention.passes import model_pass
from fairseq_posattn.attention.positions import with_positions
from fairseq_posattn.model.encoders.flags import describe_layer
from fairseq_posattn.model.mechanisms import REPLACE_POSITIONS
from fairseq_posattn.model.transformer_layer import (
    EncoderLayer,
    build_encoder_layer,
    parse_sublayers,
)


class TransformerEncoder(nn.Module):
    """Transformer layers, after a linear layer if ``dim`` is not ``hidden_dim``.

    Args:
        dim: features of a token.
        hidden_dim: C, features of the layers and of the result.
        positions: whether sinusoidal positions are added to the input.
        normalize_after: whether a layer norm follows the last layer.
        scale: factor of the input before positions are added.
    """

    def __init__(
        self,
        dim: int,
        hidden_dim: int,
        layers: list[EncoderLayer],
        positions: bool,
        normalize_after: bool,
        scale: float = 1.0,
    ):
        super().__init__()
        self.input_map = glorot_linear(dim, hidden_dim) if dim != hidden_dim else None
        self.layers = nn.ModuleList(layers)
        self.positions = positions
        self.scale = scale
        self.layer_norm = nn.LayerNorm(hidden_dim) if normalize_after else None
        self.output_dim = hidden_dim

    @model_pass
    def forward(self, tokens: Tensor, key_padding_mask: Tensor) -> Tensor:
        """Map ``[B, T, dim]`` to ``[B, T, C]``; the mask is bool ``[B, T]``."""
        x = tokens if self.input_map is None else self.input_map(tokens)  # [B, T, C]
        if self.positions:
            x = with_positions(self.scale * x)
        x = x.transpose(0, 1)  # [T, B, C]
        for layer in self.layers:
            x = layer(x, key_padding_mask)
        x = x.transpose(0, 1)
        return x if self.layer_norm is None else self.layer_norm(x)


def build(cfg: Namespace, dim: int) -> TransformerEncoder:
    hidden_dim = cfg.encoder_hidden_dim or dim
    names = parse_sublayers(
        cfg.encoder_sublayers, flag="--encoder-sublayers", cross=False, ffn_last=False
    )
    layer = describe_layer(cfg, hidden_dim, tuple(names))
    return TransformerEncoder(
        dim,
        hidden_dim,
        [build_encoder_layer(layer, cfg) for _ in range(cfg.encoder_layers)],
        positions=not (cfg.no_token_positional_embeddings or REPLACE_POSITIONS.intersection(names)),
        normalize_after=cfg.encoder_normalize_before,
        scale=hidden_dim**0.5 if str(cfg.embedding_scale) == "sqrt" else 1.0,
    )
