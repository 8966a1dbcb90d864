"""Every attention mechanism that a sublayer can be made of, by the name that users type.

To add one: write its function and module in ``fairseq_posattn/attention``, a function below that
builds the module from the flags, and a line in ``MECHANISMS``. Flags of its own are fields of
:class:`MechanismConfig`.

A mechanism is a module called as ``mechanism(hidden, query, key, value, key_padding_mask=...,
need_weights=...)`` with ``hidden`` ``[B, Tq, C]``, the sublayer's normalised input at the queries,
and query, key, value ``[B, H, T, D]``; it returns the context ``[B, H, Tq, D]``, and the weights
``[B, H, Tq, Tk]`` behind it where they are asked for.
"""

from dataclasses import dataclass, field

from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import nn

from fairseq_posattn import attention


@dataclass
class MechanismConfig(FairseqDataclass):
    """The flags of the mechanisms, shared by all models."""

    attention_impl: ChoiceEnum(["auto", "reference", "sdpa"]) = field(
        default="auto",
        metadata={
            "help": "implementation of the attention functions; 'auto' chooses for each call, a "
            "named one that cannot serve a call is an error"
        },
    )
    dman_max_distance: int = field(
        default=0,
        metadata={
            "help": "DMAN: learned distances each way, further tokens share the furthest one's; "
            "0 for as many as there are positions"
        },
    )
    sman_radius: str = field(
        default="4",
        metadata={
            "help": "SMAN: tokens seen each way, a number, or 'sqrt' for the square root of half "
            "the sentence's length"
        },
    )


@dataclass(frozen=True)
class Place:
    """Where a mechanism is put: what its parameters' shapes depend on.

    Attributes:
        embed_dim: C. num_heads: H. max_positions: the longest sentence on this side.
        causal: whether queries are blocked from the keys after them (a decoder's self attention).
        dropout: probability of dropping an attention weight.
    """

    embed_dim: int
    num_heads: int
    max_positions: int
    causal: bool
    dropout: float


def build_san(config: MechanismConfig, place: Place) -> nn.Module:
    return attention.DotProductAttention(
        causal=place.causal, dropout=place.dropout, impl=str(config.attention_impl)
    )


def build_dman(config: MechanismConfig, place: Place) -> nn.Module:
    if config.dman_max_distance < 0:
        raise ValueError(f"--dman-max-distance {config.dman_max_distance}: it cannot be negative")
    return attention.DynamicMaskAttention(
        place.embed_dim,
        place.num_heads,
        max_distance=config.dman_max_distance or place.max_positions - 1,
        causal=place.causal,
        dropout=place.dropout,
        impl=str(config.attention_impl),
    )


def build_sman(config: MechanismConfig, place: Place) -> nn.Module:
    if config.sman_radius != "sqrt" and not config.sman_radius.isdecimal():
        raise ValueError(f"--sman-radius {config.sman_radius}: it must be a number or 'sqrt'")
    return attention.StaticMaskAttention(
        radius=None if config.sman_radius == "sqrt" else int(config.sman_radius),
        causal=place.causal,
        dropout=place.dropout,
        impl=str(config.attention_impl),
    )


MECHANISMS = {
    "san": build_san,
    "dman": build_dman,
    "sman": build_sman,
}
