"""Atomic writing, tables in YAML, and locks.

A file gets its name once it is complete; an existing file stays until then, as do links,
permissions and devices.
"""

import argparse
import errno
import fcntl
import glob
import json
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any
from uuid import uuid4

from filelock import FileLock, Timeout

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.progress import say

StrPath = str | os.PathLike[str]
SEPARATORS = {",": "fairseq-preprocess", ":": "fairseq-train"}  # which split names at these


@contextmanager
def writing(path: StrPath, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Yield a file, text in UTF-8, that gets its name at the end; failing is a UsageError."""
    check_writable(path)
    part = None
    try:
        stream = _special_file(path)
        if stream is not None:
            with _open(stream, binary) as file:
                yield file
            return
        target = Path(os.path.realpath(path))
        _remove_stale_parts(target)
        part = str(target.with_name(f".{target.name}.{uuid4().hex[:8]}.part"))
        with _open(_create_locked(part), binary) as file:
            yield file
        if target.exists():
            os.chmod(part, stat.S_IMODE(target.stat().st_mode))
        try:
            os.replace(part, target)
        except OSError as error:
            if error.errno not in (errno.EBUSY, errno.EXDEV):
                raise  # to write into the file would lose it, as on a full disk
            shutil.copyfile(part, path)  # nothing replaces a mounted file
        else:
            part = None
    except OSError as error:
        if error.filename not in (None, path, os.fspath(path), part):
            raise  # an error of another file in the ``with`` block
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        if part:
            with suppress(OSError):
                os.unlink(part)


def _create_locked(part: str) -> int:
    """Return the descriptor of a new file with a lock, which the process's end releases."""
    while True:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # another process took it for stale before it was locked


def _remove_stale_parts(target: Path) -> None:
    """Remove the parts of a file or folder that killed processes left: nobody holds their locks."""
    for stale in target.parent.glob(f".{glob.escape(target.name)}.{'?' * 8}.part"):
        with suppress(OSError), _locked(stale, fcntl.LOCK_NB):
            if stale.is_dir():
                shutil.rmtree(stale)
            else:
                stale.unlink()


@contextmanager
def _locked(path: StrPath, how: int = 0) -> Iterator[None]:
    """Hold the lock of a file or folder that exists."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | how)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def unfinished_folder(target: Path) -> Iterator[Path]:
    """Yield a hidden folder beside ``target``, removed in the end or by the next one's start."""
    _remove_stale_parts(target)
    hidden = TemporaryDirectory(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    with hidden as folder, ExitStack() as stack:
        with suppress(OSError):  # a file system without locks
            stack.enter_context(_locked(folder))
        yield Path(folder)


def check_writable(path: StrPath, option: str = "") -> None:
    """Raise UsageError if a file, perhaps of ``option``, cannot be written, before the work."""
    named = f"{option} {path}".strip()
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise UsageError(f"{named} is a folder: name a file in it")
    there = os.path.exists(path)
    if not there and not target.parent.is_dir():
        raise UsageError(f"{named}: there is no such folder; make it first")
    if not os.access(path if there else target.parent, os.W_OK):
        raise UsageError(f"{named} cannot be written: Permission denied")


def check_unsplit(path: StrPath, option: str = "", signs: str = ":") -> None:
    """Raise UsageError if fairseq splits a name at one of the ``signs`` of :data:`SEPARATORS`."""
    if sign := next((sign for sign in signs if sign in os.fspath(path)), None):
        named = f"{option} {path}".strip()
        raise UsageError(f"{named}: {SEPARATORS[sign]} splits it at {sign!r}; choose another name")


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
    with suppress(AttributeError, OSError, ValueError):  # no stdout, or without a descriptor
        if os.path.samestat(status, os.fstat(sys.stdout.fileno())):
            sys.stdout.flush()
            return os.dup(sys.stdout.fileno())
    return None if stat.S_ISREG(status.st_mode) else os.open(path, os.O_WRONLY | os.O_NOCTTY)


def _open(descriptor: int, binary: bool) -> IO[Any]:
    if binary:
        return open(descriptor, "wb")
    return open(descriptor, "w", encoding="utf-8", newline="\n")


def write_text(path: StrPath, text: str) -> None:
    """Write a text file as :func:`writing` does."""
    with writing(path) as file:
        file.write(text)


def write_json(path: StrPath, content: Any, **options: Any) -> None:
    """Write a JSON file, with options of :func:`json.dumps`; NaN and infinity are ValueErrors."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, **options) + "\n"
    with writing(path, binary=True) as file:
        file.write(text.encode(errors="backslashreplace"))  # names of files in other encodings


def files_in(folder: Path, suffix: str = "") -> Iterator[Path]:
    """Yield the files of a folder and of all folders in it, linked ones too, by their suffix."""
    for path, inner, names in os.walk(folder, followlinks=True):
        here = Path(os.path.realpath(path))  # links to it and above would be followed for ever
        inner[:] = [n for n in inner if not here.is_relative_to(os.path.realpath(here / n))]
        yield from filter(
            Path.is_file, (Path(path, name) for name in names if name.endswith(suffix))
        )


def read_table(path: Path) -> Any:
    """Return the content of a YAML file of the package, by the C library if there is one."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(path.read_text(encoding="utf-8"), loader)


def read_limited(path: StrPath, limit: int = 1 << 24) -> bytes:
    """Return the content of a file; more than ``limit`` bytes are a ValueError."""
    with open(path, "rb") as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"more than {limit:,} bytes")
    return content


@contextmanager
def locked(
    path: StrPath,
    work: object,
    tell: Callable[[str], object] | None = None,
    meanwhile: Callable[[], object] = lambda: None,
) -> Iterator[None]:
    """Hold a lock file, in a folder that is made; while another has it, ``tell`` of the ``work``.

    ``meanwhile`` is called each second of the wait.
    """
    lock, is_waiting, is_gone = FileLock(path), False, False
    while not lock.is_locked:
        try:
            lock.acquire(timeout=1)
        except FileNotFoundError:  # the other run failed, and removed the folder that it had made
            if is_gone:
                raise
            is_gone = True
        except Timeout:
            meanwhile()
            if not is_waiting:
                (tell or say)(f"waiting for another run that is at work on {work}")
            is_waiting, is_gone = True, False
    try:
        yield
    finally:
        lock.release()
