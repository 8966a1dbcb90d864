"""The base class of the modules around attention functions."""

from argparse import Namespace
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, ClassVar

from torch import Tensor, nn
from typing_extensions import TypedDict

from fairseq_posattn.attention.call import Arguments, Attended, Options, map_context
from fairseq_posattn.attention.declare import declaration_of


class Shared(TypedDict, total=False):
    """Arguments of every mechanism: see :class:`Mechanism`."""

    causal: bool
    dropout: float
    impl: str


@dataclass
class NoFlags:
    """Flags of a mechanism without any."""


@dataclass(frozen=True, kw_only=True)
class LayerSizes:
    """Sizes of a layer from which a mechanism is built."""

    embed_dim: int  # C
    num_heads: int  # H
    max_positions: int  # tokens of the longest sentence on this side of the model
    causal: bool = False  # whether queries are blocked from later keys (a decoder's self attention)


def check_choice(what: str, name: str, choices: Collection[str]) -> None:
    """Raise ValueError if ``name`` is none of the choices."""
    if name not in choices:
        raise ValueError(f"unknown {what} {name!r}; choose one of: {', '.join(choices)}")


def check_causal(name: str, causal: bool) -> None:
    """Raise ValueError if a mechanism that sees the past only is to see later keys, too."""
    if not causal:
        raise ValueError(f"{name} attention is causal only; give it to --decoder-sublayers")


class AttentionFunction(nn.Module):
    """Attention function as a module, so that forward hooks see its calls."""

    def __init__(self, function: Callable[..., Attended]):
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Attended:
        return self.function(*args, **kwargs)


class RetainedDropout(nn.Module):
    """Base class of modules whose dropout fairseq's ``--retain-dropout`` can keep in generation.

    ``--retain-dropout-modules`` selects them by the class name ``owner``.
    """

    owner = ""
    retained = False

    @property
    def drops(self) -> bool:
        """Return whether dropout is in effect."""
        return self.training or self.retained

    def make_generation_fast_(
        self, retain_dropout: bool = False, retain_dropout_modules: Any = None, **unused: Any
    ) -> None:
        """Set whether to drop in generation; fairseq calls this. Without names all modules do."""
        selected = retain_dropout_modules is None or self.owner in retain_dropout_modules
        self.retained = retain_dropout and selected


class Mechanism(RetainedDropout):
    """Base class of self attention mechanisms: an attention function and its parameters.

    Args:
        causal: block the keys after each query; default False.
        dropout: probability of dropping an attention weight in training; default 0.
        impl: implementation of the attention function; default ``auto``.

    Attributes:
        function: the attention function.
        sizes: arguments that are sizes of the layer: ``embed_dim`` C, the features of its input,
            ``num_heads`` H or ``head_dim`` D.
        flags: dataclass of the command line's flags. Behind the mechanism's name and an underscore
            they are named as arguments, unless :meth:`read_flags` is overridden.
        encodes_keys: True if it computes from a key's position, or from the layer's input there,
            what incremental decoding caches (:meth:`encode_keys`).
        projects_key: False if the key is the layer's input itself, split among the heads.
        replaces_positions: True if, as in its paper, models with it have no position embeddings.
        attributes: names of the attributes that are arguments of the function.
        activation: applied to the context; None for none.
    """

    function: ClassVar[Callable[..., Attended]]
    sizes: ClassVar[tuple[str, ...]] = ()
    flags: ClassVar[type] = NoFlags
    encodes_keys: ClassVar[bool] = False
    projects_key: ClassVar[bool] = True
    replaces_positions: ClassVar[bool] = False
    attributes: ClassVar[tuple[str, ...]] = ()
    activation: Callable[[Tensor], Tensor] | None = None

    def __init__(self, causal: bool = False, dropout: float = 0.0, impl: str = "auto"):
        super().__init__()
        self.causal, self.dropout, self.impl = causal, dropout, impl
        self.owner = type(self).__name__

    @classmethod
    def read_sizes(cls, embed_dim: int, num_heads: int) -> dict[str, int]:
        """Return the arguments of the constructor that are sizes, by name."""
        sizes = {"embed_dim": embed_dim, "num_heads": num_heads, "head_dim": embed_dim // num_heads}
        return {name: sizes[name] for name in cls.sizes}

    @classmethod
    def read_flags(cls, flags: Namespace, layer: LayerSizes) -> dict[str, Any]:
        """Return the arguments of the constructor beside :class:`Shared`, by name.

        Raise ValueError if the model lacks a flag, as the plugin's models lack a user's.
        """
        read: dict[str, Any] = dict(cls.read_sizes(layer.embed_dim, layer.num_heads))
        for field in fields(cls.flags):
            if not hasattr(flags, field.name):
                lacks = f"--{field.name.replace('_', '-')}: the model has no such flag, which"
                fix = f"register a model whose config derives from {cls.flags.__name__}, too"
                raise ValueError(f"{lacks} {cls.__name__} reads; {fix}")
            value = getattr(flags, field.name)
            # The mechanism's name may have underscores.
            readers = field.metadata.get("readers", ())
            names = (reader for reader in readers if field.name.startswith(f"{reader}_"))
            name = next(names, field.name.partition("_")[0])
            # fairseq's choices are members of an enumeration.
            value = str(value) if isinstance(value, Enum) else value
            read[field.name.removeprefix(f"{name}_")] = value
        return read

    def encode_keys(self, hidden: Tensor, key: Tensor, start: int) -> dict[str, Tensor]:
        """Return tensors of the keys to cache, ``[B, H, T]`` or ``[B, H, T, D]``, by argument.

        ``hidden`` is ``[B, T, C]`` and ``key`` ``[B, H, T, D]``, from position ``start`` on.
        """
        raise NotImplementedError

    def arguments(self, hidden: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Arguments:
        """Return the function's arguments beside query, key, value and options, by name."""
        return {name: getattr(self, name) for name in self.attributes}

    def finish(self, context: Tensor, value: Tensor) -> Tensor:
        """Return the mechanism's output from the function's context and the values."""
        return context if self.activation is None else self.activation(context)

    def forward(
        self,
        hidden: Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        encoded: Mapping[str, Tensor] | None = None,
    ) -> Attended:
        """Attend within a sentence; arguments and result are those of the attention function.

        Args:
            hidden: ``[B, Tq, C]``, the layer's (normalized) input at the queries.
            encoded: cached results of :meth:`encode_keys`, whose ``key`` is already in ``key``.
        """
        options: Options = {"key_padding_mask": key_padding_mask, "need_weights": need_weights}
        options |= {"dropout_p": self.dropout, "training": self.drops, "impl": self.impl}
        function = declaration_of(self.function)
        if function.causal:
            options["causal"] = self.causal
        if self.encodes_keys and encoded is None:
            encoded = self.encode_keys(hidden, key, 0)
        vectors = {"query": query, "key": key, "value": value, **(encoded or {})}
        arguments = self.arguments(hidden, query, key, value)
        attended = function({**vectors, **arguments, **options})
        return map_context(lambda context: self.finish(context, value), attended)
