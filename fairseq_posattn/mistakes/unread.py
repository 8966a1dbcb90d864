"""Options for parts that a model has not: they change nothing, and nobody would know.

The help of an option begins with the parts that read it, as in "transformer, mtsa: attention
heads": values of ``--encoder`` and names of sublayers, or "--pooling NAME". What has no such
beginning is for every model.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields

from fairseq.models import MODEL_DATACLASS_REGISTRY

from fairseq_posattn.mistakes.ranges import flag

READERS = re.compile(r"((?:--pooling )?\w+(?:, \w+)*): ")


def unread(settings: Mapping) -> Iterator[str]:
    """A line for each option of a model with sublayers that is not the architecture's, and unread.

    Args:
        settings: as :func:`fairseq_posattn.mistakes.settings.check` takes them.
    """
    config = MODEL_DATACLASS_REGISTRY.get(settings.get("arch"))
    known = {option.name: option for option in fields(config)} if config else {}
    if "encoder_sublayers" not in known:
        return
    parts = parts_of({name: option.default for name, option in known.items()} | dict(settings))
    for name, option in known.items():
        given, readers = settings.get(name, option.default), readers_of(option)
        if readers and not parts.intersection(readers) and str(given) != str(option.default):
            yield (
                f"{flag(name)} {given} changes nothing: it is for {', '.join(readers)}, and this "
                f"model has {', '.join(sorted(parts))}"
            )


def readers_of(option) -> list[str]:
    """The parts that a field of a config says it is for."""
    found = READERS.match(option.metadata.get("help", ""))
    return found[1].split(", ") if found else []


def parts_of(options: Mapping) -> set[str]:
    """What a model is made of, as helps name it."""
    encoder, pooling = options.get("encoder"), options.get("pooling")
    parts = {str(encoder)} if encoder else set()  # that of translation has no name
    if pooling:
        parts.add(f"--pooling {pooling}")
    if str(encoder or "transformer") == "transformer":
        for side in ("encoder_sublayers", "decoder_sublayers"):
            parts.update(str(options[side]).split(",") if side in options else [])
    return parts
