"""Attention mechanisms: pure functions, and modules with their parameters.

Nothing here imports fairseq. Shapes are written in these letters: B sentences, H heads, T positions
(Tq queries, Tk keys), D features of one head, C = H * D.
"""

from fairseq_posattn.attention.da import (
    DistanceAwareAttention,
    distance_aware_attention,
)
from fairseq_posattn.attention.disan import (
    DirectionalBlock,
    DirectionalSelfAttention,
    directional_attention,
)
from fairseq_posattn.attention.dman import DynamicMaskAttention, dynamic_mask_attention
from fairseq_posattn.attention.fusion import PositionFusion, position_fusion
from fairseq_posattn.attention.gaussian import GaussianAttention, gaussian_attention
from fairseq_posattn.attention.masked import (
    MaskedDotProductAttention,
    masked_dot_product_attention,
)
from fairseq_posattn.attention.masks import (
    distance_mask,
    future_mask,
    mask_by_name,
    past_mask,
    scaled_distance_mask,
    window_mask,
)
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.mpsan import (
    MultiplePositionalSelfAttention,
    PositionalSelfAttention,
    additive_attention,
)
from fairseq_posattn.attention.mtsa import TensorizedAttention, tensorized_attention
from fairseq_posattn.attention.rpr import (
    RelativePositionAttention,
    relative_position_attention,
)
from fairseq_posattn.attention.san import DotProductAttention, dot_product_attention
from fairseq_posattn.attention.sman import StaticMaskAttention, mask_attention, static_mask
from fairseq_posattn.attention.source2token import Source2TokenPooling, source2token_pooling
from fairseq_posattn.attention.source_maps import SourceMaps
from fairseq_posattn.attention.tener import AdaptedAttention, adapted_attention
from fairseq_posattn.attention.transformer_xl import (
    TransformerXLAttention,
    transformer_xl_attention,
)

__all__ = [
    "AdaptedAttention",
    "DirectionalBlock",
    "DirectionalSelfAttention",
    "DistanceAwareAttention",
    "DotProductAttention",
    "DynamicMaskAttention",
    "GaussianAttention",
    "MaskedDotProductAttention",
    "Mechanism",
    "MultiplePositionalSelfAttention",
    "PositionFusion",
    "PositionalSelfAttention",
    "RelativePositionAttention",
    "Source2TokenPooling",
    "StaticMaskAttention",
    "SourceMaps",
    "TensorizedAttention",
    "TransformerXLAttention",
    "adapted_attention",
    "additive_attention",
    "directional_attention",
    "distance_aware_attention",
    "distance_mask",
    "dot_product_attention",
    "dynamic_mask_attention",
    "future_mask",
    "gaussian_attention",
    "mask_attention",
    "mask_by_name",
    "masked_dot_product_attention",
    "past_mask",
    "position_fusion",
    "relative_position_attention",
    "scaled_distance_mask",
    "source2token_pooling",
    "static_mask",
    "tensorized_attention",
    "transformer_xl_attention",
    "window_mask",
]
