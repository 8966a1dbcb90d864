"""Declaration of flags beside what reads them; ``training/flags.py`` gives them to fairseq."""

from collections.abc import Collection
from dataclasses import field
from typing import Any


def flag(
    default: Any,
    help: str,
    *readers: str,
    choices: Collection[str] | None = None,
    at_least: float | None = None,
    more_than: float | None = None,
    structural: bool = False,
    free: bool = False,
    unread_with: Collection[str] = (),
    **metadata: object,
) -> Any:
    """Return a dataclass field for a flag of fairseq-train, with fairseq's ``metadata``.

    Args:
        readers: parts of a model that read it, if not all do: values of ``--encoder``, names of
            sublayers, or an option with its value, such as "--pooling NAME" (``parts_of``).
        choices: the allowed values.
        at_least, more_than: bounds of the allowed numbers.
        structural: it decides which weights a model has.
        free: it changes no result of a trained model, so that training may continue with another
            value and checkpoints that differ in it may be averaged.
        unread_with: options with their value, with which no reader reads it.
    """
    metadata |= {"readers": readers, "at_least": at_least, "more_than": more_than}
    metadata |= {"structural": structural, "free": free, "unread_with": unread_with}
    metadata |= {"choices": tuple(choices)} if choices else {}
    help = f"{', '.join(readers)}: {help}" if readers else help
    return field(default=default, metadata={**metadata, "help": help})
