"""What a preparation says while it works: all of it on standard error."""

import sys
import time

from tqdm import tqdm

tqdm.monitor_interval = 0  # no thread of its own: worker processes are forked


def say(message):
    """One line to the user."""
    tqdm.write(message, file=sys.stderr)
    sys.stderr.flush()


class Progress:
    """A bar while something goes on, if there is a terminal, and one line with its rate at the end.

    Args:
        title: what is being done.
        unit: what is counted, in the plural.
        total: how many of them, where that is known.
        start: how many there were already; they do not enter the rate.
    """

    def __init__(self, title, unit="lines", total=None, start=0):
        self.title, self.unit, self.start = title, unit, start
        self.began = time.monotonic()
        self.bar = tqdm(
            desc=title,
            unit=f" {unit}",
            unit_scale=True,
            total=total,
            initial=start,
            disable=None,
            leave=False,
            mininterval=0.5,
            file=sys.stderr,
        )
        self.count = start

    def add(self, count):
        self.count += count
        self.bar.update(count)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.bar.close()
        if kind is None:
            seconds = max(time.monotonic() - self.began, 1e-3)
            rate = (self.count - self.start) / seconds
            say(f"{self.title}: {self.count:,} {self.unit}, {rate:,.0f} a second")
