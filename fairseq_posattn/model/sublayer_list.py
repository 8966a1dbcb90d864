"""The lists that users type: ``--encoder-sublayers dman,san,ffn``."""

from fairseq_posattn.model.mechanisms import MECHANISMS

CROSS = "cross"
FEED_FORWARD = "ffn"


def parse_sublayers(text: str, *, flag: str, cross: bool, ffn_last: bool = True) -> list[str]:
    """Split and check a list of sublayers.

    Args:
        text: names with commas between.
        flag: the option that the list came from, for errors.
        cross: whether the list is a decoder's, which attends to the encoder exactly once.
        ffn_last: whether a layer must end with ``ffn``.

    Raises:
        ValueError: an unknown name, a last sublayer other than ``ffn``, or ``cross`` missing,
            repeated, or out of place.
    """
    names = [name.strip() for name in text.split(",")]
    known = [*MECHANISMS, *([CROSS] if cross else []), FEED_FORWARD]
    for name in names:
        if name == CROSS and not cross:
            raise ValueError(
                f"{flag} {text}: an encoder has nothing to cross to; leave {CROSS} out"
            )
        if name not in known:
            raise ValueError(f"{flag} {text}: unknown sublayer {name!r}; known: {', '.join(known)}")
    if ffn_last and names[-1] != FEED_FORWARD:
        raise ValueError(f"{flag} {text}: the last sublayer must be {FEED_FORWARD}")
    if cross and names.count(CROSS) != 1:
        raise ValueError(
            f"{flag} {text}: {CROSS} must stand in it exactly once, not {names.count(CROSS)} times"
        )
    return names
