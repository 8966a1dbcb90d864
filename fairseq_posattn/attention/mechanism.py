"""What the modules around the attention functions share, so that a layer can be made of any."""

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn
from typing_extensions import TypedDict

from fairseq_posattn.attention.call import Attended, Options
from fairseq_posattn.attention.implementations import Attention


class Shared(TypedDict, total=False):
    """The arguments that every mechanism has."""

    causal: bool
    dropout: float
    impl: str


class AttentionFunction(nn.Module):
    """An attention function as a module, so that hooks are told of its calls, as of a mechanism's.

    Args:
        function: takes ``need_weights`` and then returns its result and the weights.
    """

    def __init__(self, function: Callable[..., Attended]):
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Attended:
        """What the function makes of these arguments."""
        return self.function(*args, **kwargs)


class Mechanism(nn.Module):
    """A kind of self attention, with the parameters that it learns.

    It is called as ``mechanism(hidden, query, key, value, key_padding_mask=None,
    need_weights=False)``: ``hidden`` ``[B, Tq, C]`` is the layer's (normalised) input at the
    queries; query ``[B, H, Tq, D]``, key and value ``[B, H, Tk, D]`` are its projections, and the
    queries are the last Tq of the Tk positions. It returns the context ``[B, H, Tq, D]``; with
    ``need_weights`` also the weights ``[B, H, Tq, Tk]``.

    Args:
        causal: whether queries are blocked from the keys after them.
        dropout: probability of dropping an attention weight while training.
        impl: implementation of the attention function.

    Attributes:
        attention: the function that it calls.
        projects_key: False where the key is the layer's input itself, split among the heads.
    """

    attention: ClassVar[Attention]
    projects_key = True

    def __init__(self, causal: bool = False, dropout: float = 0.0, impl: str = "auto"):
        super().__init__()
        self.causal = causal
        self.dropout = dropout
        self.impl = impl

    def options(self, key_padding_mask: Tensor | None, need_weights: bool) -> Options:
        """Arguments that every attention function takes by name."""
        return {
            "key_padding_mask": key_padding_mask,
            "dropout_p": self.dropout,
            "training": self.training,
            "impl": self.impl,
            "need_weights": need_weights,
        }
