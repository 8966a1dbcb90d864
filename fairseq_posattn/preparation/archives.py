"""Published archives and the folders that they unpack to, with one interface.

Content decides, not names. Members are streamed and never written to disk: names and links in an
archive cannot lead elsewhere, there is no second copy of large corpora, and it is faster.
"""

import hashlib
import os
import re
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

from fairseq_posattn.common.archives import checked, damage_reported, decompressed, tar_members
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import StrPath, files_in
from fairseq_posattn.text.lines import read_lines

COMPRESSED = (".gz", ".bz2", ".xz")
ATTRIBUTES = re.compile(r"(^|/)\._[^/]*$")  # macOS's files beside others, which are no data

Members = Iterator[tuple[str, IO[bytes]]]
Opened = AbstractContextManager[IO[bytes]]
Reader = Callable[..., Iterator[Any]]  # of a binary stream and its name


def open_archive(path: StrPath) -> "Archive":
    """Return the :class:`Archive` of a file or folder; raise :exc:`UsageError` if it is damaged."""
    path = Path(path)
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        is_pipe = "a pipe, but files are read several times; write its content to a file"
        raise UsageError(f"{path}: {is_pipe if path.exists() else 'no such file or folder'}")
    with damage_reported(path):
        if zipfile.is_zipfile(path):
            return Zip(path)
    file = SingleFile(path)
    with file.open_only() as stream, suppress(tarfile.HeaderError):
        start = stream.read(tarfile.BLOCKSIZE)
        tarfile.TarInfo.frombuf(start, tarfile.ENCODING, "surrogateescape")
        return Tar(path, file.open_only, file)
    return file


def joined(folder: StrPath, paths: Iterable[StrPath]) -> "Archive":
    """Return the archives of several files as one archive."""
    archives = [open_archive(path) for path in paths]
    return archives[0] if len(archives) == 1 else Archives(folder, archives)


class Archive:
    """Named files to read; names are paths with slashes. Damage raises :class:`UsageError`.

    ``members()`` yields ``(name, binary stream)`` of each file; a stream is valid until the
    next. A folder's files come sorted by name, an archive's in the order they were packed. A member
    is found by its whole path or by the end of it, from a slash on.
    """

    def __init__(self, path: StrPath) -> None:
        self.path, self.name = Path(path), str(path)

    def members(self) -> Members:
        raise NotImplementedError

    @cached_property
    def names(self) -> list[str]:
        return [name for name, _ in self.members()]

    def open(self, member: str) -> Opened:
        return self._open(member)

    @contextmanager
    def _open(self, member: str) -> Iterator[IO[bytes]]:
        for name, stream in self.members():
            if _ends_in(name, member):
                yield stream
                return
        raise UsageError(f"{self.name}: holds no {member}")

    def lines(self, member: str, reader: Reader = read_lines) -> Iterator[Any]:
        """Yield what a function of its stream and its name for messages reads of a file."""
        with self.open(member) as stream:
            yield from reader(stream, self.label(member))

    def numbered_lines(self, member: str, encoding: str = "utf-8") -> Iterator[tuple[str, str]]:
        """Yield ``(FILE:LINE, line)`` of a file."""
        name, lines = self.label(member), self.lines(member, partial(read_lines, encoding=encoding))
        for number, line in enumerate(lines, start=1):
            yield f"{name}:{number}", line

    def unpacked(self, packed: tuple[str, ...]) -> Iterator[tuple[str, IO[bytes], str]]:
        """Yield name, stream and name for messages of all files, and of those in archives.

        ``packed`` are the endings of the inner archives' names.
        """
        for name, stream in self.members():
            if name.endswith(packed):
                yield from self.nested(name).unpacked(())
            else:
                yield name, stream, f"{self.name}/{name}"

    def label(self, member: str) -> str:
        """Return the name of a file for messages."""
        return f"{self.name}/{member}"

    def has(self, member: str) -> bool:
        return any(_ends_in(name, member) for name in self.names)

    def first_of(self, *members: str) -> str:
        """Return the first of some files that there is; raise :exc:`UsageError` if none is."""
        for member in members:
            if self.has(member):
                return member
        raise UsageError(f"{self.name}: holds none of {', '.join(members)}")

    def nested(self, member: str) -> "Archive":
        """Return the tar archive inside this one, compressed or not; in a folder also a zip."""

        @contextmanager
        def opener() -> Iterator[IO[bytes]]:
            with self.open(member) as stream:
                yield decompressed(stream, self.label(member))

        return Tar(self.label(member), opener, self)

    def fingerprint(self) -> str:
        """Return text that changes with the archive or the files of the folder."""
        return _state(self.path)


class Archives(Archive):
    """Several archives of one data set."""

    def __init__(self, folder: StrPath, archives: Sequence[Archive]) -> None:
        super().__init__(folder)
        self.archives = archives

    def members(self) -> Members:
        for archive in self.archives:
            yield from archive.members()

    @cached_property
    def names(self) -> list[str]:
        return [name for archive in self.archives for name in archive.names]

    def unpacked(self, packed: tuple[str, ...]) -> Iterator[tuple[str, IO[bytes], str]]:
        for archive in self.archives:
            yield from archive.unpacked(packed)

    def open(self, member: str) -> Opened:
        return self._holding(member).open(member)

    def label(self, member: str) -> str:
        return self._holding(member).label(member)

    def nested(self, member: str) -> Archive:
        return self._holding(member).nested(member)

    def fingerprint(self) -> str:
        return " ".join(archive.fingerprint() for archive in self.archives)

    def _holding(self, member: str) -> Archive:
        for archive in self.archives:
            if archive.has(member):
                return archive
        raise UsageError(f"{self.name}: holds no {member}")


class Folder(Archive):
    """The files of a folder, linked ones too; of several that end alike, the nearest is read."""

    @cached_property
    def names(self) -> list[str]:
        names = (path.relative_to(self.path).as_posix() for path in files_in(self.path))
        return sorted(name for name in names if not ATTRIBUTES.search(name))

    def members(self) -> Members:
        for name in self.names:
            with open(self.path / name, "rb") as stream:
                yield name, stream

    def open(self, member: str) -> Opened:
        return open(self._find(member), "rb")

    def label(self, member: str) -> str:
        return str(self._find(member))

    def nested(self, member: str) -> Archive:
        return open_archive(self._find(member))

    def fingerprint(self) -> str:
        paths = sorted(self.path / name for name in self.names)
        states = "".join(f"{path.relative_to(self.path)} {_state(path)}\n" for path in paths)
        return hashlib.sha256(states.encode("utf-8", "surrogateescape")).hexdigest()

    def _find(self, member: str) -> Path:
        matches = [name for name in self.names if _ends_in(name, member)]
        if not matches:
            raise UsageError(f"{self.name}: holds no {member}")
        return self.path / min(matches, key=lambda name: name.count("/"))


class Tar(Archive):
    """A tar archive; ``opener`` opens its decompressed bytes, ``outer`` is the file it lies in."""

    def __init__(self, path: StrPath, opener: Callable[[], Opened], outer: Archive) -> None:
        super().__init__(path)
        self.opener, self.outer = opener, outer

    def fingerprint(self) -> str:
        return self.outer.fingerprint()

    def members(self) -> Members:
        with self.opener() as stream:
            for member, content in tar_members(stream, self.name):
                if content is not None and not ATTRIBUTES.search(member.name):
                    yield member.name.removeprefix("./"), checked(content, self.name)


class Zip(Archive):
    def members(self) -> Members:
        with damage_reported(self.name), zipfile.ZipFile(self.path) as archive:
            for item in archive.infolist():
                if not item.is_dir() and not ATTRIBUTES.search(item.filename):
                    with archive.open(item) as stream:
                        yield item.filename, checked(stream, self.label(item.filename))


class SingleFile(Archive):
    """One file, compressed or not, under its name without .gz and the like."""

    def __init__(self, path: StrPath) -> None:
        super().__init__(path)
        with open(path, "rb") as file:
            self.is_compressed = decompressed(file, path) is not file

    def label(self, member: str) -> str:
        return self.name

    @cached_property
    def names(self) -> list[str]:
        shortened = self.is_compressed and self.path.suffix in COMPRESSED
        return [self.path.stem if shortened else self.path.name]

    def members(self) -> Members:
        with self.open_only() as stream:
            yield self.names[0], stream

    @contextmanager
    def open_only(self) -> Iterator[IO[bytes]]:
        with open(self.path, "rb") as file:
            yield decompressed(file, self.name)


def _ends_in(name: str, member: str) -> bool:
    return name == member or name.endswith(f"/{member}")


def _state(path: Path) -> str:
    status = os.stat(path)
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
