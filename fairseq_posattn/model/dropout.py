"""Dropout that fairseq's ``--retain-dropout`` may keep while a model generates."""

from typing import Any

from torch import Tensor, nn

from fairseq_posattn.attention.cpu.dropout import drop


class Dropout(nn.Dropout):
    """Drops features while training, and where it is retained also afterwards.

    Args:
        p: probability of dropping a feature.
        owner: the name that ``--retain-dropout-modules`` knows it by, that of the module's class;
            none in models that do not generate.
    """

    def __init__(self, p: float, owner: str = ""):
        super().__init__(p)
        self.owner = owner
        self.retained = False

    def forward(self, x: Tensor) -> Tensor:
        """A tensor of any shape to the same."""
        return drop(x, self.p, self.training or self.retained)

    def make_generation_fast_(
        self,
        name: str,
        retain_dropout: bool = False,
        retain_dropout_modules: list[str] | None = None,
        **unused: Any,
    ) -> None:
        """Called by fairseq before it generates; without names all are retained."""
        named = retain_dropout_modules is None or self.owner in retain_dropout_modules
        self.retained = retain_dropout and named
