"""Published archives and the folders that they unpack to, read alike.

An archive is a tar (plain, .gz, .bz2, .xz), a zip, one compressed file, one plain file, or a
folder; what it is shows in its content, not in its name. Members are streamed: nothing is unpacked,
so that names, links and devices in an archive lead nowhere. What unpacks to far more than it is, is
refused; so is all that cannot be read.
"""

import hashlib
import os
import tarfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import zips
from fairseq_posattn.preparation.unpacking import (
    Limit,
    damage_told,
    decompressed,
    guarded,
    unpacked,
)

LONGEST_HEADER = 1 << 14  # bytes of a tar's extended header, which is read whole


def open_archive(path):
    """An :class:`Archive` for a file or a folder.

    Raises:
        UsageError: there is neither, or it is damaged.
    """
    path = Path(path)
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise UsageError(f"{path}: no such file or folder")
    if zips.is_zip(path):
        return Zip(path)
    archive = SingleFile(path)
    with archive.open_only() as stream:
        start = stream.read(tarfile.BLOCKSIZE)
    if _is_tar(start):
        return Tar(str(path), archive.open_only, lambda: _state(path))
    return archive


def check_archive(path):
    """Read a file through, so that what is damaged or cut off shows now.

    Raises:
        UsageError: it is damaged.
    """
    for _, stream in open_archive(path).members():
        while stream.read(1 << 20):
            pass


class Archive:
    """Named files to read. Names are paths with slashes, as in the archive.

    Reading raises a :class:`UsageError` where the archive is damaged.
    """

    def __init__(self, name):
        self.name = name

    def names(self):
        """Names of all files."""
        return [name for name, _ in self.members()]

    def members(self):
        """``(name, binary stream)`` of each file in one pass; a stream serves until the next one.

        A folder's files come sorted by name, an archive's in the order they were packed.
        """
        raise NotImplementedError

    @contextmanager
    def open(self, member):
        """A binary stream over the file whose path is ``member`` or ends in ``/member``.

        Raises:
            UsageError: there is none.
        """
        for name, stream in self.members():
            if _ends_in(name, member):
                yield stream
                return
        raise self._missing(member)

    def label(self, member):
        """What to call a file in messages."""
        return f"{self.name}/{member}"

    def has(self, member):
        """Whether :meth:`open` would find it."""
        return any(_ends_in(name, member) for name in self.names())

    def nested(self, member):
        """The tar archive that is a file of this one, compressed or not; in a folder, a zip too."""
        name = f"{self.name}/{member}"
        return Tar(name, partial(_open_nested, self, member, name), self.fingerprint)

    def fingerprint(self, *members):
        """Something that changes when the files do: the archive, or ``members`` of a folder.

        Without ``members`` it tells of all files of a folder.
        """
        raise NotImplementedError

    def _missing(self, member):
        return UsageError(f"{self.name}: holds no {member}")


class Folder(Archive):
    """Its regular files; devices and pipes, which may have no end, are none."""

    def __init__(self, path):
        super().__init__(str(path))
        self.path = path
        self._names = None

    def names(self):
        if self._names is None:
            self._names = sorted(
                Path(folder, file).relative_to(self.path).as_posix()
                for folder, _, files in os.walk(self.path)
                for file in files
                if os.path.isfile(os.path.join(folder, file))
            )
        return self._names

    def members(self):
        for name in self.names():
            with open(self.path / name, "rb") as stream:
                yield name, stream

    @contextmanager
    def open(self, member):
        with open(self.path / self._find(member), "rb") as stream:
            yield stream

    def label(self, member):
        return str(self.path / self._find(member))

    def nested(self, member):
        path = self.path / self._find(member)
        return Zip(path) if zips.is_zip(path) else super().nested(member)

    def fingerprint(self, *members):
        names = sorted({self._find(member) for member in members}) if members else self.names()
        return _digest(f"{name} {_state(self.path / name)}" for name in names)

    def _find(self, member):
        found = [name for name in self.names() if _ends_in(name, member)]
        if not found:
            raise self._missing(member)
        return min(found, key=_depth)


class Tar(Archive):
    """A tar archive, of which ``opener`` gives the bytes from the start, decompressed."""

    def __init__(self, name, opener, fingerprint):
        super().__init__(name)
        self.opener, self._fingerprint = opener, fingerprint

    def fingerprint(self, *members):
        return self._fingerprint()

    def members(self):
        with self.opener() as stream:
            tar = self._opened(stream)
            while (member := self._next(tar)) is not None:
                tar.members.clear()  # it would remember every header
                if member.isfile():
                    content = guarded(tar.extractfile(member), self.name)
                    yield member.name.removeprefix("./"), content
            while stream.read(1 << 20):
                pass  # to the checksum at the end of a compressed file

    def _opened(self, stream):
        with damage_told(self.name):
            return tarfile.open(fileobj=stream, mode="r|", tarinfo=Header)

    def _next(self, tar):
        with damage_told(self.name):
            return tar.next()


class Header(tarfile.TarInfo):
    """A header that is not read whole where it claims to be endless."""

    EXTENDED = (
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
    )

    def _refuse_sparse(self, *arguments):
        raise tarfile.ReadError("a sparse file, which may be without end")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse

    def _proc_member(self, tar):  # tarfile's own hook for subclasses
        if self.size < 0 or self.type in self.EXTENDED and self.size > LONGEST_HEADER:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        return super()._proc_member(tar)


class Zip(Archive):
    def __init__(self, path):
        super().__init__(str(path))
        self.path = path

    def names(self):
        with zips.opened(self.path) as archive:
            return [item.filename for item in archive.infolist() if not item.is_dir()]

    def members(self):
        limit = Limit(self.path)
        with zips.opened(self.path) as archive:
            for item in archive.infolist():
                if not item.is_dir():
                    with zips.member(archive, item) as stream:
                        yield item.filename, guarded(stream, self.name, limit)

    def fingerprint(self, *members):
        return _state(self.path)


class SingleFile(Archive):
    """One file, compressed or not, under its own name (without .gz and the like)."""

    def __init__(self, path):
        super().__init__(str(path))
        self.path = path
        with open(path, "rb") as file:
            self.is_compressed = decompressed(file) is not file

    def label(self, member):
        return self.name

    def names(self):
        shortened = self.is_compressed and self.path.suffix in (".gz", ".bz2", ".xz")
        return [self.path.stem if shortened else self.path.name]

    def members(self):
        with self.open_only() as stream:
            yield self.names()[0], stream

    @contextmanager
    def open_only(self):
        """Its bytes, decompressed."""
        with open(self.path, "rb") as file:
            if self.is_compressed:
                yield guarded(decompressed(file), self.name, Limit(self.path))
            else:
                yield file

    def fingerprint(self, *members):
        return _state(self.path)


@contextmanager
def _open_nested(archive, member, name):
    with archive.open(member) as stream:
        yield unpacked(stream, name)


def _is_tar(start):
    try:
        tarfile.TarInfo.frombuf(start, tarfile.ENCODING, "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


def _ends_in(name, member):
    return name == member or name.endswith(f"/{member}")


def _depth(name):
    return len(PurePosixPath(name).parts)


def _state(path):
    status = os.stat(path)
    return f"{status.st_size} {status.st_mtime_ns}"


def _digest(texts):
    digest = hashlib.sha256()
    for text in texts:
        digest.update(f"{text}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
