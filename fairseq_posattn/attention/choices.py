"""Options that are one of several names."""

from collections.abc import Collection


def check_choice(what: str, name: str, choices: Collection[str]) -> None:
    """Raises ValueError where ``name`` is none of the choices."""
    if name not in choices:
        raise ValueError(f"unknown {what} {name!r}; choose one of: {', '.join(choices)}")
