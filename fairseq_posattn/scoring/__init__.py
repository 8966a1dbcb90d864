"""Scores of what models give: text, classes, roles and rankings. Imports no PyTorch."""

__all__ = ["bleu", "labels", "outputs", "ranking", "result", "roles", "rouge", "significance"]
