"""How every file is written: whole, or not at all.

A file gets its name once all of it is there, so that neither a kill nor a full disk leaves half of
one; what had that name stays until then. Symbolic links are followed, permissions are kept, and
what is no regular file (a device, a named pipe) is written into, never replaced.
"""

import argparse
import errno
import fcntl
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from fairseq_posattn.common.errors import UsageError

StrPath = str | os.PathLike[str]

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP)  # as some network file systems have it


@contextmanager
def writing(path: StrPath, *, binary: bool = False) -> Iterator[IO[Any]]:
    """A file to write to, which has its name only after the ``with`` block has ended well.

    Args:
        path: its folder must be there.
        binary: bytes; otherwise text in UTF-8 with ``\\n`` line ends.

    Raises:
        UsageError: it cannot be written; the message names ``path``.
    """
    target = os.path.realpath(path)
    part = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.part")
    try:
        existing = _status(path)
        own = _own_stream(existing)
        if own is not None or existing and not stat.S_ISREG(existing.st_mode):
            descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY) if own is None else os.dup(own)
            with _file(descriptor, binary) as file:
                yield file
            return
        with _file(_open_part(part, existing), binary) as file:
            try:
                yield file
                file.flush()
                os.replace(part, target)  # before the file is closed, and the next one may have it
            except BaseException:
                with suppress(OSError):
                    os.unlink(part)
                raise
    except OSError as error:
        if error.filename not in (None, os.fspath(path), part):
            raise  # what else the block does has a name of its own
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error


def write_text(path: StrPath, text: str) -> None:
    """Write a text file as :func:`writing` does."""
    with writing(path) as file:
        file.write(text)


def write_json(path: StrPath, content: Any, **options: Any) -> None:
    """Write a JSON file; ``options`` are those of :func:`json.dumps`.

    Raises:
        ValueError: there is a NaN or an infinity in it, which JSON has not.
    """
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, **options)
    write_text(path, text + "\n")


def check_writable(path: StrPath, option: str = "") -> None:
    """Refuse a file that cannot be written, before the work whose result should go there.

    Args:
        option: the flag that names it, for the message.

    Raises:
        UsageError: it is a folder, its folder is missing, or it may not be written.
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
    """The type of options of argparse that name a file to write; see :func:`check_writable`."""
    try:
        check_writable(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def _status(path: StrPath) -> os.stat_result | None:
    """What is there under the name; None for nothing."""
    try:
        existing = os.stat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(existing.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder; name a file in it", os.fspath(path))
    if stat.S_ISREG(existing.st_mode) and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    return existing


def _own_stream(existing: os.stat_result | None) -> int | None:
    """The descriptor of this program's output if that is the file, as with /dev/stdout."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):  # none, closed, or of no file
            if existing and os.path.samestat(existing, os.fstat(stream.fileno())):
                stream.flush()
                return stream.fileno()
    return None


def _open_part(part: str, existing: os.stat_result | None) -> int:
    """The unfinished file, for this writer alone; takes over what a killed one left."""
    while True:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            lock(descriptor)  # waits for another writer of the same file
            with suppress(FileNotFoundError):  # that one has finished or given up: once more
                if os.path.samestat(os.fstat(descriptor), os.stat(part)):
                    os.ftruncate(descriptor, 0)
                    if existing:
                        with suppress(PermissionError):
                            os.fchown(descriptor, existing.st_uid, existing.st_gid)
                        os.fchmod(descriptor, stat.S_IMODE(existing.st_mode))
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def lock(descriptor: int) -> None:
    """Wait until no other process has the file's lock; where there are no locks, go without."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise


def _file(descriptor: int, binary: bool) -> IO[Any]:
    if binary:
        return open(descriptor, "wb")
    return open(descriptor, "w", encoding="utf-8", newline="\n")
