"""Dropout that fairseq's ``--retain-dropout`` may keep while a model generates."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Dropout):
    """Drops features while training, and where it is retained also afterwards.

    Args:
        p: probability of dropping a feature.
        owner: the name that ``--retain-dropout-modules`` knows it by, that of the module's class.
    """

    def __init__(self, p: float, owner: str):
        super().__init__(p)
        self.owner = owner
        self.retained = False

    def forward(self, x: Tensor) -> Tensor:
        """A tensor of any shape to the same."""
        acts = self.training or self.retained
        if acts and x.device.type == "cpu" and 0 < self.p < 1:
            # The same draws. Of these a byte a feature is kept for the backward pass, as on a GPU.
            return torch.native_dropout(x, self.p, True)[0]
        return F.dropout(x, self.p, acts)

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
