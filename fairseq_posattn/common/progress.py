"""Messages and progress bars, on standard error."""

import sys
import time

from tqdm import tqdm

tqdm.monitor_interval = 0  # no extra thread: worker processes are forked

SECONDS_BETWEEN_LINES = 60


def say(message: str) -> None:
    """Print one line."""
    tqdm.write(message, file=sys.stderr)
    sys.stderr.flush()


class Progress:
    """A progress bar, and one line with the rate at the end.

    Without a terminal, as in a job's log, it prints one line per minute.

    Args:
        title: the work.
        unit: what is counted, in the plural.
        total: final count, if known.
        start: count at the start, which does not enter the rate.
    """

    def __init__(self, title, unit="lines", total=None, start=0):
        self.title, self.unit, self.start = title, unit, start
        self.started = self.reported = time.monotonic()
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
        if self.bar.disable and time.monotonic() - self.reported > SECONDS_BETWEEN_LINES:
            self.reported = time.monotonic()
            say(f"{self.title}: {self.count:,} {self.unit} so far")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        self.bar.close()
        if kind is None:
            seconds = max(time.monotonic() - self.started, 1e-3)
            rate = (self.count - self.start) / seconds
            say(f"{self.title}: {self.count:,} {self.unit}, {rate:,.0f} a second")


def duration(seconds: float) -> str:
    """Format seconds: "3 s", "12 min", "5 h 20 min", "2 d 3 h"."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if hours >= 24:
        return f"{hours // 24} d {hours % 24} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes else f"{max(0, round(seconds))} s"
