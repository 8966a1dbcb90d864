"""Checks of all settings of a command before anything is read or written."""


def flag(name: str) -> str:
    """Return a setting's name as users type it."""
    return "--" + name.replace("_", "-")
