"""What a preparation says while it works: all of it on standard error."""

import sys
import time

from tqdm import tqdm

tqdm.monitor_interval = 0  # no thread of its own: worker processes are forked

SECONDS_BETWEEN_LINES = 60


def say(message: str) -> None:
    """One line to the user."""
    tqdm.write(message, file=sys.stderr)
    sys.stderr.flush()


class Progress:
    """A bar while something goes on, and one line with its rate at the end.

    Where there is no terminal, for instance in a job's log, a line a minute stands in for the bar.

    Args:
        title: what is being done.
        unit: what is counted, in the plural.
        total: how many of them, where that is known.
        start: how many there were already; they do not enter the rate.
    """

    def __init__(self, title, unit="lines", total=None, start=0):
        self.title, self.unit, self.start = title, unit, start
        self.began = self.told = time.monotonic()
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
        if self.bar.disable and time.monotonic() - self.told > SECONDS_BETWEEN_LINES:
            self.told = time.monotonic()
            say(f"{self.title}: {self.count:,} {self.unit} so far")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.bar.close()
        if kind is None:
            seconds = max(time.monotonic() - self.began, 1e-3)
            rate = (self.count - self.start) / seconds
            say(f"{self.title}: {self.count:,} {self.unit}, {rate:,.0f} a second")
