"""Attention mechanisms: pure functions, and modules (:class:`Mechanism`) with their parameters.

Shapes have these letters: B sentences, H heads, T positions (Tq queries, Tk keys), D features of
one head, C = H * D. Queries ``[B, H, Tq, D]`` are the last Tq of the Tk positions of keys and
values ``[B, H, Tk, D]``. Every function also takes
:class:`~fairseq_posattn.attention.call.Options`.

It returns the context ``[B, H, Tq, D]``, with ``need_weights`` also the weights
``[B, H, Tq, Tk]``. Both are zero for a query that may see no key. It raises ValueError if an
argument does not fit or ``impl`` cannot serve the call.
"""

from fairseq_posattn.attention.alibi import LinearBiasAttention, alibi_attention
from fairseq_posattn.attention.cope import (
    ContextualPositionAttention,
    contextual_position_attention,
)
from fairseq_posattn.attention.da import DistanceAwareAttention, distance_aware_attention
from fairseq_posattn.attention.disan import (
    DirectionalBlock,
    DirectionalSelfAttention,
    directional_attention,
)
from fairseq_posattn.attention.dman import DynamicMaskAttention, dynamic_mask_attention
from fairseq_posattn.attention.fire import FunctionalBiasAttention, fire_attention
from fairseq_posattn.attention.forget import ForgettingAttention, forgetting_attention
from fairseq_posattn.attention.gaussian import GaussianAttention, gaussian_attention
from fairseq_posattn.attention.kerple import KernelBiasAttention, kerple_attention
from fairseq_posattn.attention.masks import mask_by_name
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.mpsan import (
    MultiplePositionalSelfAttention,
    PositionalSelfAttention,
    PositionFusion,
    additive_attention,
)
from fairseq_posattn.attention.mtsa import TensorizedAttention, tensorized_attention
from fairseq_posattn.attention.rope import RotaryAttention, rotary_attention
from fairseq_posattn.attention.rpr import RelativePositionAttention, relative_position_attention
from fairseq_posattn.attention.san import (
    DotProductAttention,
    MaskedDotProductAttention,
    dot_product_attention,
    masked_dot_product_attention,
)
from fairseq_posattn.attention.sman import StaticMaskAttention, mask_attention, static_mask
from fairseq_posattn.attention.source2token import Source2TokenPooling, SourceMaps
from fairseq_posattn.attention.t5 import BucketBiasAttention, t5_attention
from fairseq_posattn.attention.tener import AdaptedAttention, adapted_attention
from fairseq_posattn.attention.transformer_xl import (
    TransformerXLAttention,
    transformer_xl_attention,
)

__all__ = ["AdaptedAttention", "BucketBiasAttention", "ContextualPositionAttention"]
__all__ += ["DirectionalBlock", "DirectionalSelfAttention", "DistanceAwareAttention"]
__all__ += ["DotProductAttention", "DynamicMaskAttention", "ForgettingAttention"]
__all__ += ["FunctionalBiasAttention", "GaussianAttention", "KernelBiasAttention"]
__all__ += ["LinearBiasAttention", "MaskedDotProductAttention", "Mechanism"]
__all__ += ["MultiplePositionalSelfAttention", "PositionFusion", "PositionalSelfAttention"]
__all__ += ["RelativePositionAttention", "RotaryAttention", "Source2TokenPooling", "SourceMaps"]
__all__ += ["StaticMaskAttention", "TensorizedAttention", "TransformerXLAttention"]
__all__ += ["adapted_attention", "additive_attention", "alibi_attention"]
__all__ += ["contextual_position_attention", "directional_attention", "distance_aware_attention"]
__all__ += ["dot_product_attention", "dynamic_mask_attention", "fire_attention"]
__all__ += ["forgetting_attention", "gaussian_attention", "kerple_attention", "mask_attention"]
__all__ += ["mask_by_name", "masked_dot_product_attention", "relative_position_attention"]
__all__ += ["rotary_attention", "static_mask", "t5_attention", "tensorized_attention"]
__all__ += ["transformer_xl_attention"]
