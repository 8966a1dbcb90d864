"""Files that appear whole or not at all."""

from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writing(path):
    """A UTF-8 text file to write to, with ``\\n`` line ends, that gets its name once it is whole.

    What was there under that name before stays if writing fails.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.part")
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
