"""Scores of what models give: text, classes, roles and rankings. Imports no PyTorch.

``posattn score bleu`` and ``posattn score rouge`` are its commands.
"""

__all__ = ["bleu", "labels", "outputs", "ranking", "result", "roles", "rouge", "significance"]
