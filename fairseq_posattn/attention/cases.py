"""Test and benchmark cases of every attention function, by the name that users type.

A mechanism with a line in ``CASES`` is tested and measured with the others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fairseq_posattn import attention
from fairseq_posattn.attention.call import Attended
from fairseq_posattn.attention.declare import Attention, declaration_of
from fairseq_posattn.attention.masks import DistanceMask, MaskBank
from fairseq_posattn.attention.mechanism import Mechanism

DIRECTIONS = ("past", "future")
PAST_ONLY = {"causal": True}


@dataclass(frozen=True)
class Sizes:
    """Sizes of the tensors of a call: B, H, Tq, Tk and D."""

    batch: int = 4
    heads: int = 2
    queries: int = 5
    keys: int = 5
    features: int = 3


@dataclass(frozen=True)
class Case:
    """Attention function with arguments to call it with."""

    function: Callable[..., Attended]
    module: Callable[..., Mechanism] | None = None  # builds it from C, H and Shared arguments
    options: dict[str, object] = field(default_factory=dict)
    masks: tuple[str, ...] = ()  # names, divided evenly among the heads
    mask_matrix: bool = False  # the function takes masks as matrices only

    @property
    def attention(self) -> Attention:
        return declaration_of(self.function)

    def arguments(
        self, sizes: Sizes, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> dict[str, object]:
        """Return random tensors with gradients, alike in every precision, and the mask, by name."""
        by_name = {"B": sizes.batch, "H": sizes.heads, "Tq": sizes.queries, "Tk": sizes.keys}
        by_name |= dict.fromkeys(("D", "Dv", "C"), sizes.features)
        tensors = self.attention.shapes.random(by_name, [sizes.heads], seed=0)
        arguments: dict[str, object] = {
            name: tensor.to(device, dtype).requires_grad_() for name, tensor in tensors.items()
        }
        if self.masks:
            arguments["mask"] = self.mask(sizes, device)
        return arguments | self.options

    def mask(self, sizes: Sizes, device: torch.device | str) -> Tensor | DistanceMask:
        bank = MaskBank.for_heads(self.masks, sizes.heads, causal=False)
        mask = bank.of_distance(sizes.queries, sizes.keys, device=torch.device(device))
        return mask.matrix() if self.mask_matrix else mask

    def __call__(self, arguments: dict[str, object], **options: object) -> Attended:
        return self.function(**arguments, **options)


CASES = {
    "san": Case(
        attention.dot_product_attention,
        lambda C, H, **shared: attention.DotProductAttention(**shared),
    ),
    "dman": Case(
        attention.dynamic_mask_attention,
        lambda C, H, **shared: attention.DynamicMaskAttention(C, H, max_distance=2, **shared),
    ),
    "da": Case(
        attention.distance_aware_attention,
        lambda C, H, **shared: attention.DistanceAwareAttention(H, **shared),
    ),
    "mtsa": Case(
        attention.tensorized_attention,
        lambda C, H, **shared: attention.TensorizedAttention(H, C // H, masks=(), **shared),
        masks=DIRECTIONS,
    ),
    "mtsa_identity": Case(attention.tensorized_attention, options={"token_scale": "identity"}),
    "mpsan": Case(attention.additive_attention, masks=DIRECTIONS),
    "masked": Case(
        attention.masked_dot_product_attention,
        lambda C, H, **shared: attention.MaskedDotProductAttention(H, ["past"], **shared),
        masks=DIRECTIONS,
        mask_matrix=True,
    ),
    "rpr": Case(
        attention.relative_position_attention,
        lambda C, H, **shared: attention.RelativePositionAttention(C, H, max_distance=2, **shared),
    ),
    "gaussian": Case(attention.gaussian_attention, attention.GaussianAttention),
    "transformer_xl": Case(attention.transformer_xl_attention, attention.TransformerXLAttention),
    "tener": Case(attention.adapted_attention, attention.AdaptedAttention),
    "rope": Case(
        attention.rotary_attention,
        lambda C, H, **shared: attention.RotaryAttention(**shared),
    ),
    "alibi": Case(
        attention.alibi_attention,
        lambda C, H, **shared: attention.LinearBiasAttention(H, **shared),
    ),
    "t5": Case(
        attention.t5_attention,
        lambda C, H, **shared: attention.BucketBiasAttention(C, H, 8, 5, **shared),
        options={"max_distance": 5},
    ),
    "kerple": Case(
        attention.kerple_attention,
        lambda C, H, **shared: attention.KernelBiasAttention(H, **shared),
    ),
    "fire": Case(
        attention.fire_attention,
        lambda C, H, **shared: attention.FunctionalBiasAttention(H, **shared),
    ),
    "cope": Case(
        attention.contextual_position_attention,
        lambda C, H, **shared: attention.ContextualPositionAttention(
            C // H, 3, **(shared | PAST_ONLY)
        ),
    ),
    "forget": Case(
        attention.forgetting_attention,
        lambda C, H, **shared: attention.ForgettingAttention(C, H, **(shared | PAST_ONLY)),
    ),
    "disan": Case(attention.directional_attention),
}
# Cases with kernels.
KERNELS = {n: case for n, case in CASES.items() if "triton" in case.attention.implementations}
