"""Options for parts that a model has not: they change nothing, and nobody would know.

The help of an option begins with the parts that read it, as in "transformer, mtsa: attention
heads": values of ``--encoder`` and names of sublayers, or "--pooling NAME". What has no such
beginning is for every model.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields

from fairseq.models import MODEL_DATACLASS_REGISTRY

from fairseq_posattn.compat.flags.ranges import flag
from fairseq_posattn.model.mechanisms import REPLACE_POSITIONS

READERS = re.compile(r"((?:--pooling )?\w+(?:, \w+)*): ")


def unread(settings: Mapping) -> Iterator[str]:
    """A line for each option of a model with sublayers that is not the architecture's, and unread.

    Args:
        settings: as :func:`fairseq_posattn.compat.flags.settings.check` takes them.
    """
    config = MODEL_DATACLASS_REGISTRY.get(settings.get("arch"))
    known = {option.name: option for option in fields(config)} if config else {}
    if "encoder_sublayers" not in known:
        return
    options = {name: option.default for name, option in known.items()} | dict(settings)
    parts = parts_of(options)
    for name, option in known.items():
        if str(options[name]) == str(option.default):
            continue
        nothing = f"{flag(name)} {options[name]} changes nothing"
        readers = readers_of(option)
        if readers and not parts.intersection(readers):
            has = ", ".join(sorted(parts))
            yield f"{nothing}: it is for {', '.join(readers)}, and this model has {has}"
        side = name.removesuffix("_learned_pos")
        if side != name and (instead := without_positions(options, side)):
            yield f"{nothing}: {instead}, and no positions are added to the words"


def without_positions(options: Mapping, side: str) -> str:
    """Why a side, ``encoder`` or ``decoder``, adds no positions to its words; empty if it does."""
    if options.get("no_token_positional_embeddings"):
        return "there is --no-token-positional-embeddings"
    name = f"{side}_sublayers"
    replacing = sorted(REPLACE_POSITIONS.intersection(str(options[name]).split(",")))
    return f"{flag(name)} has {', '.join(replacing)}" if replacing else ""


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
