"""An update of training, shared among workers so that its size does not depend on their number."""

from typing import NamedTuple

from fairseq_posattn.common.errors import UsageError

# fairseq takes sentences of up to so many tokens, and ends where one is larger than a batch.
LONGEST_SENTENCE = 1024


class Share(NamedTuple):
    """What each worker does: ``frequency`` batches of ``size`` tokens or sentences."""

    size: int
    frequency: int


def share(size: int, batches: int, workers: int) -> Share:
    """Share an update of ``batches`` times ``size`` tokens (or sentences) among ``workers``.

    Each takes as many batches as are needed for none to be larger than ``size``; where ``batches``
    cannot be divided, they are smaller.

    Raises:
        UsageError: there are more workers than tokens.
    """
    frequency = -(-batches // workers)
    shared = size * batches // (workers * frequency)
    if shared == 0:
        raise UsageError(f"{workers} workers cannot share an update of {batches} x {size}")
    return Share(shared, frequency)


def describe(size: int, batches: int, workers: int, unit: str) -> list[str]:
    """What :func:`share` makes of an update, and a warning where batches become too small."""
    shared, frequency = share(size, batches, workers)
    asked, all_workers = size * batches, shared * frequency * workers
    uneven = "" if all_workers == asked else f", not {asked}: they cannot be shared evenly"
    lines = [
        f"an update is {workers} worker(s) x {frequency} batch(es) (--update-freq) x {shared} "
        f"{unit} = {all_workers} {unit}{uneven}"
    ]
    if unit == "tokens" and shared < min(size, LONGEST_SENTENCE):
        lines.append(
            f"warning: a sentence of more than {shared} tokens will stop training; "
            "use fewer workers"
        )
    return lines
