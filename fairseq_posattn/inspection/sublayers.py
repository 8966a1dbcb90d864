"""The self-attention sublayers of a model's encoder or decoder, and the choice among them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import nn

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.inference.trained_model import TrainedModel
from fairseq_posattn.model.multihead import MultiheadCrossAttention, MultiheadSelfAttention
from fairseq_posattn.model.transformer_layer import DecoderLayer, EncoderLayer, parse_sublayers


@dataclass(frozen=True)
class AttentionSublayer:
    """An attention sublayer of a model.

    Attributes:
        layer: counted from 1, as in the papers' tables.
        name: as in ``--encoder-sublayers``; numbered where a layer has several, ``san.1``,
            ``san.2``, after the level where a model has several encoders, ``clicks.da``.
        attention: the module.
    """

    layer: int
    name: str
    attention: MultiheadSelfAttention | MultiheadCrossAttention

    @property
    def mechanism(self) -> nn.Module:
        return self.attention.mechanism

    @property
    def labels(self) -> dict:
        """Return the names used in tables and figures."""
        return {"layer": self.layer, "sublayer": self.name}


def attention_sublayers(
    layers: Sequence[nn.Module],
    names: Sequence[str],
    kind: type[nn.Module] = MultiheadSelfAttention,
):
    """Return the attention sublayers of layers, in the order of computation.

    Args:
        layers: of an encoder or a decoder.
        names: of the sublayers of each layer, in order.
        kind: self attention, or :class:`.MultiheadCrossAttention`.

    Returns:
        list of :class:`AttentionSublayer`.
    """
    counts, numbered = Counter(names), []
    for index, name in enumerate(names):
        ordinal = names[: index + 1].count(name)
        numbered.append(f"{name}.{ordinal}" if counts[name] > 1 else name)
    return [
        AttentionSublayer(number, name, residual.sublayer)
        for number, layer in enumerate(layers, start=1)
        for name, residual in zip(numbered, layer.sublayers, strict=True)
        if isinstance(residual.sublayer, kind)
    ]


def sublayers_of(
    trained: TrainedModel, side: str, kind: type[nn.Module] = MultiheadSelfAttention
) -> list[AttentionSublayer]:
    """Return the attention sublayers of a kind in a model's ``encoder`` or ``decoder``.

    A recommender has two encoders: the names of their sublayers begin with ``words.`` and
    ``clicks.``.

    Raises:
        UsageError: the model's layers are none of this plugin's.
    """
    levels = getattr(trained.model, "levels", {}) if side == "encoder" else {}
    stacks = [(f"{name}.", encoder) for name, encoder in levels.items()]
    return [
        replace(sublayer, name=prefix + sublayer.name)
        for prefix, stack in stacks or [("", getattr(trained.model, side, None))]
        for sublayer in _sublayers_of_stack(trained, side, stack, kind)
    ]


def _sublayers_of_stack(trained, side, stack, kind):
    layers = getattr(stack, "layers", [])
    if not layers or not all(isinstance(layer, EncoderLayer | DecoderLayer) for layer in layers):
        raise UsageError(
            f"{trained.path} is a {type(trained.model).__name__} whose {side} has no sublayers to "
            "look into, as those of --arch posattn_transformer and its like; posattn look shows "
            "what attends in any model of this plugin's"
        )
    flag = f"{side}_sublayers"
    decoder = side == "decoder"
    names = parse_sublayers(
        getattr(trained.config, flag), flag=flag, cross=decoder, ffn_last=decoder
    )
    return attention_sublayers(layers, names, kind)


def choose(
    sublayers: Sequence[AttentionSublayer],
    layers: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> list[AttentionSublayer]:
    """Return the sublayers of the given layers and names; None for all.

    Raises:
        UsageError: there is no such layer or sublayer, or none of the one in the other.
    """
    depth = max(sublayer.layer for sublayer in sublayers)
    for layer in layers or ():
        if not 1 <= layer <= depth:
            raise UsageError(f"--layers {layer}: there are layers 1 to {depth}")
    known = list(dict.fromkeys(sublayer.name for sublayer in sublayers))
    for name in names or ():
        if name not in known:
            raise UsageError(f"--sublayers {name}: layers attend by {', '.join(known)}")
    chosen = [
        sublayer
        for sublayer in sublayers
        if (not layers or sublayer.layer in layers) and (not names or sublayer.name in names)
    ]
    if not chosen:
        wanted = ",".join(map(str, layers))
        raise UsageError(f"--layers {wanted} --sublayers {','.join(names)}: there is none of these")
    return chosen


def choose_heads(sublayers: Sequence[AttentionSublayer], heads: Sequence[int] | None) -> list[int]:
    """Return the given heads, counted from 1; None for all.

    Raises:
        UsageError: there is no such head.
    """
    number = min(sublayer.attention.num_heads for sublayer in sublayers)
    for head in heads or ():
        if not 1 <= head <= number:
            raise UsageError(f"--heads {head}: there are heads 1 to {number}")
    return list(heads or range(1, number + 1))
