"""What a result takes of the logs of its run."""

import re
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.training.training_log import Numbers, read_line


class Log:
    """What fairseq wrote; where it has no JSON for something, the line that says it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = path.read_text(encoding="utf-8")
        self._lines = [found for line in self._text.splitlines() if (found := read_line(line))]

    def measured(self, what: str) -> list[Numbers]:
        """The numbers of each "valid", "test", ... in their order."""
        return [numbers for tag, numbers in self._lines if tag == what]

    def tested(self) -> dict[str, Numbers]:
        """Of a test, the numbers of each split, whose batches have one line together."""
        return dict(self._lines)

    def updates(self) -> int:
        """How many there were."""
        return int(max((numbers.get("num_updates", 0) for _, numbers in self._lines), default=0))

    def seconds_an_epoch(self, whole: bool) -> float | None:
        """The mean time of training an epoch, without validation; None if there was no whole one.

        Args:
            whole: the last one was trained to its end.
        """
        seconds, updates, before = 0.0, [], (0, 0)
        for numbers in self.measured("train"):
            epoch, reached = int(numbers["epoch"]), int(numbers["num_updates"])
            if epoch == before[0] + 1:  # not what another run trained, on which this one went on
                seconds += numbers["train_wall"]
                updates.append(reached - before[1])
            before = (epoch, reached)
        if not updates or (len(updates) == 1 and not whole):
            return None
        return seconds / sum(updates) * max(updates)  # the last epoch may be a part of one

    def parameters(self) -> int:
        return int(self._last(r"num\. shared model params: ([\d,]+)")[0].replace(",", ""))

    def embeddings(self) -> tuple[int, int]:
        """The number of words and the features of their vectors."""
        words, features = self._last(r"\(embed_tokens\): Embedding\((\d+), (\d+)")
        return int(words), int(features)

    def gpus(self) -> str | None:
        """The GPUs that fairseq-train says that it trained on, on whatever machines."""
        names = re.findall(r"capabilities = .* ; name = (.*?) *$", self._text, re.MULTILINE)
        if not names:
            return None
        devices = self._last(r"training on (\d+) devices")[0]
        return f"{devices} x {names[-1]}"

    def _last(self, pattern: str) -> tuple[str, ...]:
        """What a pattern's groups match, where it matches last."""
        found = list(re.finditer(pattern, self._text))
        if not found:
            raise UsageError(f"{self._path} is not a whole log: it has no {pattern!r}")
        return found[-1].groups()
