"""Options of parts that a model does not have: they would change nothing, silently.

A field of a model's config declares in its metadata which parts read it: ``readers``, a tuple of
values of ``--encoder``, names of sublayers, or "--pooling NAME". Fields without it are read by
every model. Lists of sublayers declare ``replace_positions``, the sublayers that replace position
embeddings.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields

from fairseq.models import MODEL_DATACLASS_REGISTRY

from fairseq_posattn.compat.flags import flag


def unread(settings: Mapping) -> Iterator[str]:
    """Yield a line for each unread option that differs from its architecture's default.

    Args:
        settings: as for :func:`fairseq_posattn.compat.flags.checks.check`.
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
        readers = option.metadata.get("readers", ())
        if readers and not parts.intersection(readers):
            has = ", ".join(sorted(parts))
            yield f"{nothing}: it is for {', '.join(readers)}, and this model has {has}"
        side = name.removesuffix("_learned_pos")
        if side != name and (reason := _without_positions(options, known[f"{side}_sublayers"])):
            yield f"{nothing}: {reason}, and no position embeddings are added"


def _without_positions(options, sublayers):
    """Return why a side of the model adds no position embeddings; empty if it adds them."""
    if options.get("no_token_positional_embeddings"):
        return "there is --no-token-positional-embeddings"
    replacing = sublayers.metadata.get("replace_positions", ())
    named = sorted({*replacing}.intersection(str(options[sublayers.name]).split(",")))
    return f"{flag(sublayers.name)} has {', '.join(named)}" if named else ""


def parts_of(options: Mapping) -> set[str]:
    """Return the parts of a model, as ``readers`` name them."""
    encoder, pooling = options.get("encoder"), options.get("pooling")
    parts = {str(encoder)} if encoder else set()  # that of translation has no name
    if pooling:
        parts.add(f"--pooling {pooling}")
    if str(encoder or "transformer") == "transformer":
        for side in ("encoder_sublayers", "decoder_sublayers"):
            parts.update(str(options[side]).split(",") if side in options else [])
    return parts
