"""Options of parts that a model does not have: they would change nothing, silently.

The metadata of a config's field declares who reads it: ``readers``, a tuple of values of
``--encoder``, names of sublayers, or "--pooling NAME"; all models read a field without it. Lists of
sublayers declare ``replace_positions``, which returns those that replace position embeddings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from fairseq_posattn.compat.checks import flag


def unread(config: type, settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each unread option that differs from its default in ``config``."""
    known = {option.name: option for option in fields(config)}
    options = {name: option.default for name, option in known.items()} | dict(settings)
    parts = parts_of(options)
    for name, option in known.items():
        if str(options[name]) == str(option.default):
            continue
        nothing = f"{flag(name)} {options[name]} changes nothing"
        readers = option.metadata.get("readers", ())
        if readers and not parts.intersection(readers):
            has = ", ".join(sorted(parts))
            yield f"{nothing}: it is for {', '.join(readers)}, and this model has {has}"
        if name.endswith("_learned_pos"):
            sublayers = known[name.replace("learned_pos", "sublayers")]
            replacing = sublayers.metadata["replace_positions"]
            named = sorted({*replacing(str(options[sublayers.name]).split(","))})
            reason = f"{flag(sublayers.name)} has {', '.join(named)}" if named else ""
            if options.get("no_token_positional_embeddings"):
                reason = "there is --no-token-positional-embeddings"
            if reason:
                yield f"{nothing}: {reason}, and no position embeddings are added"


def parts_of(options: Mapping[str, Any]) -> set[str]:
    """Return the parts of a model, as ``readers`` name them."""
    encoder, pooling = options.get("encoder"), options.get("pooling")
    parts = {str(encoder)} if encoder else set()  # that of translation has no name
    if pooling:
        parts.add(f"--pooling {pooling}")
    if str(encoder or "transformer") == "transformer":
        for side in ("encoder_sublayers", "decoder_sublayers"):
            parts.update(str(options[side]).split(",") if side in options else [])
    return parts
