"""Generate small logs of clicks on news, in the layout in which MIND is published."""

import random
from collections.abc import Sequence
from pathlib import Path

TOPICS, NEWS = 4, 24
DAYS = {"train": (9, 10), "dev": (16,)}  # of November; the last one of train is for validation
IMPRESSIONS = 20  # a day


def write_logs(folder: Path, fillers: Sequence[str], generator: random.Random) -> list[str]:
    """Write ``MINDsmall_train`` and ``MINDsmall_dev``; returns the words of their titles.

    Users click news of the topic that they clicked before, which a word of the title tells.

    Args:
        fillers: words that tell nothing.
    """
    topics = {f"N{number}": f"cue{number % TOPICS}" for number in range(NEWS)}
    titles = {
        name: f"{' '.join(generator.choices(fillers, k=3))} {topic}"
        for name, topic in topics.items()
    }
    news = "".join(
        f"{name}\tnews\tworld\t{title}\t\thttps://example.org/{name}\t[]\t[]\n"
        for name, title in titles.items()
    )
    for part, days in DAYS.items():
        lines = [
            _impression(number, day, topics, generator)
            for number, day in enumerate([day for day in days for _ in range(IMPRESSIONS)], 1)
        ]
        (folder / f"MINDsmall_{part}").mkdir(parents=True)
        (folder / f"MINDsmall_{part}/news.tsv").write_text(news)
        (folder / f"MINDsmall_{part}/behaviors.tsv").write_text("".join(lines))
    return [*sorted({*topics.values()}), *fillers]


def _impression(number: int, day: int, topics: dict[str, str], generator: random.Random) -> str:
    liked = generator.choice([*topics.values()])
    own = [name for name, topic in topics.items() if topic == liked]
    others = [name for name in topics if name not in own]
    clicked, *history = generator.sample(own, generator.randint(1, 4))  # some have no history
    shown = [f"{clicked}-1", *(f"{name}-0" for name in generator.sample(others, 5))]
    generator.shuffle(shown)
    columns = [number, f"U{number}", f"11/{day}/2019 6:42:51 PM", " ".join(history)]
    return "\t".join(map(str, [*columns, " ".join(shown)])) + "\n"
