"""Generated blocks of a page: the text between two marks.

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
    """Return a page with the generated text of each block; the rest is unchanged.

    Raises:
        UsageError: a mark has no counterpart.
    """
    if single := MARK.search(typed(text)):
        raise UsageError(f"{single[0]}: this mark has no counterpart; add it or remove the mark")
    return PLACE.sub(lambda place: _block(place[1], write(place[1])), text)


def typed(text: str) -> str:
    """Return the page without its generated blocks."""
    return PLACE.sub("", text)


def _block(name: str, content: str) -> str:
    # The empty lines let Markdown read a table behind the mark.
    return f"<!-- {name} -->\n\n{content.strip()}\n\n<!-- end of {name} -->"
