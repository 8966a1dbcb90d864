"""Every attention function with inputs to try it on, by the name that users type.

One description for the tests of what all must satisfy and for the benchmarks. To add a mechanism,
give it a line here: it is tested and measured with the others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fairseq_posattn.attention.call import Attended
from fairseq_posattn.attention.da import DA, DistanceAwareAttention, distance_aware_attention
from fairseq_posattn.attention.disan import DISAN, directional_attention
from fairseq_posattn.attention.dman import DMAN, DynamicMaskAttention, dynamic_mask_attention
from fairseq_posattn.attention.gaussian import GAUSSIAN, GaussianAttention, gaussian_attention
from fairseq_posattn.attention.implementations import Attention
from fairseq_posattn.attention.masked import (
    MASKED,
    MaskedDotProductAttention,
    masked_dot_product_attention,
)
from fairseq_posattn.attention.masks import DistanceMask, MaskBank
from fairseq_posattn.attention.mechanism import Mechanism
from fairseq_posattn.attention.mpsan import MPSAN, additive_attention
from fairseq_posattn.attention.mtsa import MTSA, TensorizedAttention, tensorized_attention
from fairseq_posattn.attention.rpr import (
    RPR,
    RelativePositionAttention,
    relative_position_attention,
)
from fairseq_posattn.attention.san import SAN, DotProductAttention, dot_product_attention
from fairseq_posattn.attention.tener import TENER, AdaptedAttention, adapted_attention
from fairseq_posattn.attention.transformer_xl import (
    TRANSFORMER_XL,
    TransformerXLAttention,
    transformer_xl_attention,
)

DIRECTIONS = ("past", "future")


@dataclass(frozen=True)
class Sizes:
    """Of the tensors of a call: B, H, Tq, Tk and D."""

    batch: int = 4
    heads: int = 2
    queries: int = 5
    keys: int = 5
    features: int = 3


@dataclass(frozen=True)
class Case:
    """An attention function, and how it is tried.

    Attributes:
        attention, function: as declared, and as users call it.
        module: builds its mechanism, given C, H and what all have by name; or None.
        options: of its own.
        masks: names of masks that the heads are shared out among; none for no mask.
        mask_matrix: whether the function takes masks laid out only.
    """

    attention: Attention
    function: Callable[..., Attended]
    module: Callable[..., Mechanism] | None = None
    options: dict[str, object] = field(default_factory=dict)
    masks: tuple[str, ...] = ()
    mask_matrix: bool = False

    @property
    def causal(self) -> bool:
        """Whether the function itself can be told to block later keys."""
        return "causal" in self.function.__annotations__

    def arguments(
        self,
        sizes: Sizes,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> dict[str, object]:
        """Everything to call the function with: random tensors, which require gradients, a mask.

        The numbers are the same in every precision.
        """
        by_name = {"B": sizes.batch, "H": sizes.heads, "Tq": sizes.queries, "Tk": sizes.keys}
        by_name |= dict.fromkeys(("D", "Dv", "C"), sizes.features)
        generator = torch.Generator().manual_seed(0)
        tensors = self.attention.shapes.random(by_name, [sizes.heads], generator)
        del tensors["key_padding_mask"]
        for name, spread in self.attention.spread.items():
            tensors[name] *= spread
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
    "san": Case(SAN, dot_product_attention, lambda C, H, **shared: DotProductAttention(**shared)),
    "dman": Case(
        DMAN,
        dynamic_mask_attention,
        lambda C, H, **shared: DynamicMaskAttention(C, H, max_distance=2, **shared),
    ),
    "da": Case(
        DA,
        distance_aware_attention,
        lambda C, H, **shared: DistanceAwareAttention(H, **shared),
    ),
    "mtsa": Case(
        MTSA,
        tensorized_attention,
        lambda C, H, **shared: TensorizedAttention(H, C // H, masks=(), **shared),
        masks=DIRECTIONS,
    ),
    "mtsa_identity": Case(MTSA, tensorized_attention, options={"token_scale": "identity"}),
    "mpsan": Case(MPSAN, additive_attention, masks=DIRECTIONS),
    "masked": Case(
        MASKED,
        masked_dot_product_attention,
        lambda C, H, **shared: MaskedDotProductAttention(H, ["past"], **shared),
        masks=DIRECTIONS,
        mask_matrix=True,
    ),
    "rpr": Case(
        RPR,
        relative_position_attention,
        lambda C, H, **shared: RelativePositionAttention(C, H, max_distance=2, **shared),
    ),
    "gaussian": Case(GAUSSIAN, gaussian_attention, GaussianAttention),
    "transformer_xl": Case(TRANSFORMER_XL, transformer_xl_attention, TransformerXLAttention),
    "tener": Case(TENER, adapted_attention, AdaptedAttention),
    "disan": Case(DISAN, directional_attention),
}
# Those that have kernels.
KERNELS = {n: case for n, case in CASES.items() if "triton" in case.attention.implementations}
