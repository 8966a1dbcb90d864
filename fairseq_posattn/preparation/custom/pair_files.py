"""Where pairs of one's own are: in two files that go together line by line, or in a table."""

from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.custom.files import Files, opened
from fairseq_posattn.preparation.custom.tables import read_rows, text_of
from fairseq_posattn.text.lines import parallel_lines


@dataclass(frozen=True)
class TwoFiles:
    """A line of the one goes with a line of the other."""

    first: Path
    second: Path

    @property
    def name(self):
        return self.first

    @property
    def paths(self):
        return self.first, self.second

    def pairs(self):
        """The lines that go together.

        Raises:
            UsageError: one file has more than the other.
        """
        if self.first == self.second:
            raise UsageError(f"{self.first} is given for both sides: name two files")
        with opened(self.first) as (_, first), opened(self.second) as (_, second):
            yield from parallel_lines(**{str(self.first): first, str(self.second): second})


@dataclass(frozen=True)
class Table:
    """A row has both, in columns of these names."""

    path: Path
    columns: tuple[str, str]

    @property
    def name(self):
        return self.path

    @property
    def paths(self):
        return (self.path,)

    def pairs(self):
        """The two texts of each row.

        Raises:
            UsageError: says what is wrong with which line.
        """
        for place, values in read_rows(self.path, self.columns):
            yield tuple(map(text_of, values, self.columns, [place] * 2))


def fingerprint(sources):
    """Something that changes when a file of these does.

    Args:
        sources: of each split, :class:`TwoFiles` or a :class:`Table`.

    Raises:
        UsageError: one is not there.
    """
    return Files(chain.from_iterable(one.paths for one in sources.values())).fingerprint()
