"""The places in a page that are written from files of results: what stands between two marks.

<!-- table: DMAN, Table 2: Gigaword -->
<!-- end of table: DMAN, Table 2: Gigaword -->
"""

import re
from collections.abc import Callable

from fairseq_posattn.common.errors import UsageError

PLACE = re.compile(
    r"^<!-- (?!end of )(.+?) -->\n(.*?)^<!-- end of \1 -->$", re.DOTALL | re.MULTILINE
)
MARK = re.compile(r"^<!-- .+ -->$", re.MULTILINE)


def fill(text: str, write: Callable[[str], str]) -> str:
    """A page with what is written of each place's name; the rest stays as it is.

    Raises:
        UsageError: a mark has no other that belongs to it.
    """
    if single := MARK.search(typed(text)):
        raise UsageError(f"{single[0]} is a mark by itself: a place has one before and one behind")
    return PLACE.sub(lambda place: _place(place[1], write(place[1])), text)


def typed(text: str) -> str:
    """What of a page stands in no place; in that of each is an empty line."""
    return PLACE.sub("", text)


def _place(name: str, content: str) -> str:
    # The empty lines let Markdown read a table behind the mark.
    return f"<!-- {name} -->\n\n{content.strip()}\n\n<!-- end of {name} -->"
