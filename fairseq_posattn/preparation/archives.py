"""Published archives and the folders that they unpack to, with one interface.

Content decides, not names. Members are streamed and never written to disk: names and links in an
archive cannot lead elsewhere, there is no second copy of large corpora, and it is faster.
"""

import hashlib
import os
import tarfile
import zipfile
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from fairseq_posattn.common.archives import Header, checked, damage_reported, decompressed
from fairseq_posattn.common.errors import UsageError

COMPRESSED = (".gz", ".bz2", ".xz")


def open_archive(path):
    """Return the :class:`Archive` of a file or folder; raise :exc:`UsageError` if it is damaged."""
    path = Path(path)
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise UsageError(f"{path}: no such file or folder")
    with damage_reported(path):
        if zipfile.is_zipfile(path):
            return Zip(path)
    file = SingleFile(path)
    with file.open_only() as stream, suppress(tarfile.HeaderError):
        start = stream.read(tarfile.BLOCKSIZE)
        tarfile.TarInfo.frombuf(start, tarfile.ENCODING, "surrogateescape")
        return Tar(path, file.open_only, file)
    return file


def joined(folder, paths):
    """Return the archives of several files as one."""
    archives = [open_archive(path) for path in paths]
    return archives[0] if len(archives) == 1 else Archives(folder, archives)


class Archive:
    """Named files to read; names are paths with slashes. Damage raises :class:`UsageError`.

    ``members()`` yields ``(name, binary stream)`` of each file; a stream is valid until the next
    one. A folder's files come sorted by name, an archive's in the order they were packed. A member
    is found by its whole path or by the end of it, from a slash on.
    """

    def __init__(self, path):
        self.path, self.name = path, str(path)

    def names(self):
        return [name for name, _ in self.members()]

    @contextmanager
    def open(self, member):
        for name, stream in self.members():
            if _ends_in(name, member):
                yield stream
                return
        raise UsageError(f"{self.name}: holds no {member}")

    def label(self, member):
        """Return the name of a file for messages."""
        return f"{self.name}/{member}"

    def has(self, member):
        return any(_ends_in(name, member) for name in self.names())

    def first_of(self, *members):
        """Return the first of some files that there is; raise :exc:`UsageError` if none is."""
        for member in members:
            if self.has(member):
                return member
        raise UsageError(f"{self.name}: holds none of {', '.join(members)}")

    def nested(self, member):
        """Return the tar archive inside this one, compressed or not; in a folder also a zip."""

        @contextmanager
        def opener():
            with self.open(member) as stream:
                yield decompressed(stream, self.label(member))

        return Tar(self.label(member), opener, self)

    def fingerprint(self, *members):
        """Return text that changes with the archive, or with ``members`` (all) of a folder."""
        return _state(self.path)


class Archives(Archive):
    def __init__(self, folder, archives):
        super().__init__(folder)
        self.archives = archives

    def members(self):
        for archive in self.archives:
            yield from archive.members()

    def label(self, member):
        holding = (archive.label(member) for archive in self.archives if archive.has(member))
        return next(holding, super().label(member))

    def fingerprint(self, *members):
        return " ".join(archive.fingerprint() for archive in self.archives)


class Folder(Archive):
    """The regular files of a folder; of several that end alike, the one nearest to it is found."""

    def __init__(self, path):
        super().__init__(path)
        files = (inner.relative_to(path) for inner in path.rglob("*") if inner.is_file())
        self._names = sorted(map(PurePosixPath.as_posix, files))

    def names(self):
        return self._names

    def members(self):
        for name in self._names:
            with open(self.path / name, "rb") as stream:
                yield name, stream

    def open(self, member):
        return open(self._find(member), "rb")

    def label(self, member):
        return str(self._find(member))

    def nested(self, member):
        return open_archive(self._find(member))

    def fingerprint(self, *members):
        paths = sorted({*map(self._find, members)} or {self.path / name for name in self._names})
        states = "".join(f"{path.relative_to(self.path)} {_state(path)}\n" for path in paths)
        return hashlib.sha256(states.encode("utf-8", "surrogateescape")).hexdigest()

    def _find(self, member):
        matches = [name for name in self._names if _ends_in(name, member)]
        if not matches:
            raise UsageError(f"{self.name}: holds no {member}")
        return self.path / min(matches, key=lambda name: name.count("/"))


class Tar(Archive):
    """A tar archive; ``opener`` opens its decompressed bytes, ``outer`` is the file it lies in."""

    def __init__(self, path, opener, outer):
        super().__init__(path)
        self.opener, self.fingerprint = opener, outer.fingerprint

    def members(self):
        with self.opener() as stream, damage_reported(self.name):
            tar = tarfile.TarFile.open(fileobj=stream, mode="r|", tarinfo=Header)
            for member in tar:
                tar.members.clear()  # else it stores every header
                if member.isfile():
                    content = checked(tar.extractfile(member), self.name)
                    yield member.name.removeprefix("./"), content
            while stream.read(1 << 20):
                pass  # to the checksum at the end of a compressed file


class Zip(Archive):
    def members(self):
        with damage_reported(self.name), zipfile.ZipFile(self.path) as archive:
            for item in archive.infolist():
                if not item.is_dir():
                    with archive.open(item) as stream:
                        yield item.filename, checked(stream, self.label(item.filename))


class SingleFile(Archive):
    """One file, compressed or not, under its name without .gz and the like."""

    def __init__(self, path):
        super().__init__(path)
        with open(path, "rb") as file:
            self.is_compressed = decompressed(file, path) is not file

    def label(self, member):
        return self.name

    def names(self):
        shortened = self.is_compressed and self.path.suffix in COMPRESSED
        return [self.path.stem if shortened else self.path.name]

    def members(self):
        with self.open_only() as stream:
            yield self.names()[0], stream

    @contextmanager
    def open_only(self):
        with open(self.path, "rb") as file:
            yield decompressed(file, self.name)


def _ends_in(name, member):
    return name == member or name.endswith(f"/{member}")


def _state(path):
    status = os.stat(path)
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"
