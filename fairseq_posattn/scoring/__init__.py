"""Scores of what models give: text, classes, roles and rankings. Imports no PyTorch."""
