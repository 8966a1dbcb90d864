"""Atomic writing: a file gets its name once it is complete.

Neither a kill nor a full disk leaves half a file; an existing file stays until then. Symbolic links
are followed, permissions stay, devices and standard output are written into.
"""

import argparse
import errno
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

from fairseq_posattn.common.errors import UsageError

StrPath = str | os.PathLike[str]


@contextmanager
def writing(path: StrPath, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Yield a file to write to, which gets its name when the ``with`` block ends without error.

    Args:
        path: its folder must exist.
        binary: bytes; otherwise text in UTF-8 with ``\\n`` line ends.

    Raises:
        UsageError: it cannot be written; the message names ``path``.
    """
    part = None
    try:
        if os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, "it is a folder; name a file in it", path)
        if os.path.isfile(path) and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        stream = _special_file(path)
        if stream is not None:
            with _open(stream, binary) as file:
                yield file
            return
        target = os.path.realpath(path)
        folder, name = os.path.split(target)
        part = os.path.join(folder, f".{name}.{uuid4().hex[:8]}.part")
        with _open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), binary) as file:
            yield file
        if os.path.exists(target):
            os.chmod(part, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(part, target)
        part = None
    except OSError as error:
        if error.filename not in (None, path, os.fspath(path), part):
            raise  # an error of another file in the ``with`` block
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        if part:
            with suppress(OSError):
                os.unlink(part)


def write_text(path: StrPath, text: str) -> None:
    """Write a text file as :func:`writing` does."""
    with writing(path) as file:
        file.write(text)


def write_json(path: StrPath, content: Any, **options: Any) -> None:
    """Write a JSON file; ``options`` are those of :func:`json.dumps`.

    Raises:
        ValueError: a number is NaN or infinite.
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, **options)
    write_text(path, text + "\n")


def read_limited(path: StrPath, limit: int = 1 << 24) -> bytes:
    """Return the content of a file of at most ``limit`` bytes.

    Raises:
        ValueError: the file is larger.
    """
    with open(path, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"more than {limit:,} bytes")
    return content


def check_writable(path: StrPath, option: str = "") -> None:
    """Raise if a file cannot be written, before the work that produces its content.

    Args:
        option: the flag that names it, for the message.

    Raises:
        UsageError: it is a folder, its folder is missing, or permission is denied.
    """
    named = f"{option} {path}".strip()
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise UsageError(f"{named} is a folder: name a file in it")
    if not os.path.exists(path) and not target.parent.is_dir():
        raise UsageError(f"{named}: there is no such folder; make it first")
    if not os.access(path if os.path.exists(path) else target.parent, os.W_OK):
        raise UsageError(f"{named} cannot be written: {os.strerror(errno.EACCES)}")


def output_file(text: str) -> str:
    """Return the name of a file to write, as an argparse type; see :func:`check_writable`."""
    try:
        check_writable(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _special_file(path: StrPath) -> int | None:
    """Return a descriptor of a device, pipe or this program's output; None for other files."""
    if not os.path.exists(path):
        return None
    status = os.stat(path)
    with suppress(AttributeError, OSError, ValueError):  # no stdout, or one without a descriptor
        if os.path.samestat(status, os.fstat(sys.stdout.fileno())):
            sys.stdout.flush()
            return os.dup(sys.stdout.fileno())
    return None if stat.S_ISREG(status.st_mode) else os.open(path, os.O_WRONLY | os.O_NOCTTY)


def _open(descriptor: int, binary: bool) -> IO[Any]:
    if binary:
        return open(descriptor, "wb")
    return open(descriptor, "w", encoding="utf-8", newline="\n")
