"""Test and benchmark cases of every attention function, by the name that users type.

A mechanism with a line in ``CASES`` is tested and measured with the others.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from fairseq_posattn import attention
from fairseq_posattn.attention.call import Attended
from fairseq_posattn.attention.declare import Attention, declaration_of
from fairseq_posattn.attention.masks import DistanceMask, MaskBank
from fairseq_posattn.attention.mechanism import Mechanism

DIRECTIONS = ("past", "future")


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


def case_of(mechanism: type[Mechanism], **arguments: Any) -> Case:
    """Return the case of a mechanism with these arguments of its constructor."""

    def build(embed_dim: int, num_heads: int, **shared: Any) -> Mechanism:
        sizes: dict[str, Any] = {**mechanism.read_sizes(embed_dim, num_heads)}
        return mechanism(**sizes, **(shared | arguments))

    return Case(mechanism.function, build)


CASES = {
    "san": case_of(attention.DotProductAttention),
    "dman": case_of(attention.DynamicMaskAttention, max_distance=2),
    "da": case_of(attention.DistanceAwareAttention),
    "mtsa": replace(case_of(attention.TensorizedAttention, masks=()), masks=DIRECTIONS),
    "mtsa_identity": Case(attention.tensorized_attention, options={"token_scale": "identity"}),
    "mpsan": Case(attention.additive_attention, masks=DIRECTIONS),
    "masked": replace(
        case_of(attention.MaskedDotProductAttention, masks=["past"]),
        masks=DIRECTIONS,
        mask_matrix=True,
    ),
    "sman": replace(
        case_of(attention.StaticMaskAttention, radius=1, activation=None), options={"radius": 1}
    ),
    "rpr": case_of(attention.RelativePositionAttention, max_distance=2),
    "gaussian": case_of(attention.GaussianAttention),
    "transformer_xl": case_of(attention.TransformerXLAttention),
    "tener": case_of(attention.AdaptedAttention),
    "rope": case_of(attention.RotaryAttention),
    "alibi": case_of(attention.LinearBiasAttention),
    "t5": replace(
        case_of(attention.BucketBiasAttention, buckets=8, max_distance=5),
        options={"max_distance": 5},
    ),
    "kerple": case_of(attention.KernelBiasAttention),
    "fire": case_of(attention.FunctionalBiasAttention),
    "cope": case_of(attention.ContextualPositionAttention, positions=3, causal=True),
    "forget": case_of(attention.ForgettingAttention, causal=True),
    "disan": Case(attention.directional_attention),
}
# Cases with kernels.
KERNELS = {n: case for n, case in CASES.items() if "triton" in case.attention.implementations}
