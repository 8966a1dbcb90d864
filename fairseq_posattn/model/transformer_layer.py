"""Encoder and decoder layers as lists of residual sublayers, and their builders."""

from argparse import Namespace
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from fairseq_posattn.attention.cpu import drop
from fairseq_posattn.attention.fused import DropoutStreams, Sum, uses_kernels
from fairseq_posattn.model.caches import IncrementalState
from fairseq_posattn.model.feed_forward import Dropout, FeedForward
from fairseq_posattn.model.mechanisms import (
    HEADS_ACTIVATIONS,
    MECHANISMS,
    PACKAGED,
    LayerDescription,
)
from fairseq_posattn.model.multihead import MultiheadCrossAttention, MultiheadSelfAttention

CROSS = "cross"
FEED_FORWARD = "ffn"

Sublayer = MultiheadSelfAttention | MultiheadCrossAttention | FeedForward


def split_sublayers(text: str) -> list[str]:
    """Return the names of a list of sublayers such as ``dman,san,ffn``, which may have spaces."""
    return [name.strip() for name in text.split(",")]


def parse_sublayers(text: str, *, flag: str, cross: bool, ffn_last: bool = True) -> list[str]:
    """Split and check a list of sublayers such as ``dman,san,ffn``, the value of ``flag``.

    With ``cross`` it is a decoder's, which has exactly one ``cross``; with ``ffn_last`` the last
    sublayer must be ``ffn``.
    """
    names = split_sublayers(text)
    known = [*MECHANISMS, *([CROSS] if cross else []), FEED_FORWARD]
    for name in (*PACKAGED, CROSS, FEED_FORWARD):
        if MECHANISMS.get(name) is not PACKAGED.get(name):  # cross attention reads "san", too
            fix = f"--user-dir replaces {name!r}; give your mechanism another name"
            raise ValueError(f"{flag} {text}: {fix}")
    for name in names:
        if name == CROSS and not cross:
            raise ValueError(f"{flag} {text}: an encoder has no {CROSS} attention; remove {CROSS}")
        if name not in known:
            fix = f"known: {', '.join(known)}, and those of --user-dir"
            raise ValueError(f"{flag} {text}: unknown sublayer {name!r}; {fix}")
    if ffn_last and names[-1] != FEED_FORWARD:
        raise ValueError(f"{flag} {text}: the last sublayer must be {FEED_FORWARD}")
    if cross and names.count(CROSS) != 1:
        raise ValueError(f"{flag} {text}: {CROSS} must occur once, not {names.count(CROSS)} times")
    return names


class Residual(nn.Module):
    """Residual connection: ``x + dropout(f(norm(x)))``, else ``norm(x + dropout(f(x)))``.

    f, the ``sublayer``, returns its output, or its output and attention weights. Its
    ``without_output_bias`` returns them without the bias ``output_bias``, for kernels.
    """

    def __init__(self, sublayer: Sublayer, layer: LayerDescription, impl: str):
        super().__init__()
        self.sublayer = sublayer
        self.layer_norm = nn.LayerNorm(layer.embed_dim)
        self.dropout = Dropout(layer.dropout, type(self).__name__)
        self.normalize_before = layer.normalize_before
        self.impl = impl

    def forward(
        self, x: Tensor | Sum, *args: Any, **kwargs: Any
    ) -> tuple[Tensor | Sum, Tensor | None]:
        """Return ``[T, B, C]`` and the sublayer's attention weights or None.

        By kernels, the sum is left to the next sublayer, whose norm the same kernel computes.
        """
        if isinstance(x, Sum) or uses_kernels(self.impl, x, self.layer_norm):
            total = x if isinstance(x, Sum) else Sum(DropoutStreams(), x)
            return self._run_by_kernels(total, *args, **kwargs)
        output = self.sublayer(self.layer_norm(x) if self.normalize_before else x, *args, **kwargs)
        output, weights = output if isinstance(output, tuple) else (output, None)
        x = x + drop(output, self.dropout.probability)
        return (x if self.normalize_before else self.layer_norm(x)), weights

    def _run_by_kernels(self, total: Sum, *args: Any, **kwargs: Any) -> tuple[Sum, Tensor | None]:
        if self.normalize_before:
            x, normalized = total.normalize(self.layer_norm)
        else:
            x = normalized = total.total()
        streams = total.streams
        output = self.sublayer.without_output_bias(streams, normalized, *args, **kwargs)
        output, weights = output if isinstance(output, tuple) else (output, None)
        total = Sum(streams, x, output, self.sublayer.output_bias, self.dropout.probability)
        if not self.normalize_before:
            total = Sum(streams, total.normalize(self.layer_norm)[1])
        return total, weights


def _total(x: Tensor | Sum) -> Tensor:
    return x.total() if isinstance(x, Sum) else x


class Layer(nn.Module):
    """Residual sublayers in order; fairseq's encoder and decoder call the methods of layers.

    ``config`` has the flags of the mechanisms. Raises ValueError for a flag out of range.
    """

    def __init__(self, layer: LayerDescription, config: Namespace):
        super().__init__()
        sublayers = (_build_sublayer(name, layer, config) for name in layer.sublayers)
        self.sublayers = nn.ModuleList(sublayers)

    def upgrade_state_dict_named(self, state_dict: dict[str, Any], name: str) -> None:
        """Do nothing: there are no older checkpoints to upgrade."""


class EncoderLayer(Layer):
    """Encoder layer of self attention or feed-forward sublayers."""

    def forward(self, x: Tensor, encoder_padding_mask: Tensor | None = None) -> Tensor:
        """Map ``[T, B, C]`` to ``[T, B, C]``; the mask is bool ``[B, T]``, True where padded."""
        for residual in self.sublayers:
            attends = isinstance(residual.sublayer, MultiheadSelfAttention)
            x, _ = residual(x, encoder_padding_mask) if attends else residual(x)
        return _total(x)


class DecoderLayer(Layer):
    """Decoder layer of causal self attention, cross attention or feed-forward sublayers."""

    need_attn = True

    def forward(
        self,
        x: Tensor,
        encoder_out: Tensor,
        encoder_padding_mask: Tensor | None = None,
        incremental_state: IncrementalState | None = None,
        padding_mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Map ``[T, B, C]`` to ``[T, B, C]`` and cross-attention weights ``[H, B, T, S]`` or None.

        ``encoder_out`` is ``[S, B, encoder_dim]``; padding masks are bool, batch first. In training
        there are no weights: no criterion of these models reads them.
        """
        need_weights = need_weights and self.need_attn and not self.training
        attention = None
        for residual in self.sublayers:
            sublayer = residual.sublayer
            if isinstance(sublayer, MultiheadSelfAttention):
                x, _ = residual(x, padding_mask, incremental_state)
            elif isinstance(sublayer, MultiheadCrossAttention):
                source = encoder_out, encoder_padding_mask
                x, attention = residual(x, *source, incremental_state, need_weights)
            else:
                x, _ = residual(x)
        return _total(x), None if attention is None else attention.transpose(0, 1)

    def make_generation_fast_(self, need_attn: bool = False, **kwargs: object) -> None:
        """Set whether generation reads the attention; fairseq calls this."""
        self.need_attn = need_attn


def _build_sublayer(name: str, layer: LayerDescription, config: Namespace) -> Residual:
    activation = HEADS_ACTIVATIONS.get(str(config.heads_activation))
    dim, heads = layer.embed_dim, {"activation": activation, "dropout": config.heads_dropout}
    sublayer: Sublayer
    if name == FEED_FORWARD:
        sublayer = FeedForward(dim, layer.ffn_dim, layer.activation, layer.activation_dropout)
    elif name == CROSS:
        mechanism = MECHANISMS["san"](config, replace(layer, causal=False))
        sizes = dim, layer.encoder_dim, layer.num_heads
        sublayer = MultiheadCrossAttention(*sizes, mechanism, **heads)
    else:
        mechanism = MECHANISMS[name](config, layer)
        sublayer = MultiheadSelfAttention(dim, layer.num_heads, mechanism, **heads)
    return Residual(sublayer, layer, str(config.attention_impl))
