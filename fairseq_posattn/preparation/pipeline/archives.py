"""Published archives and the folders that they unpack to, read alike.

An archive is a tar (plain, .gz, .bz2, .xz), a zip, one compressed file, one plain file, or a
folder; what it is shows in its content, not in its name. Members are streamed: nothing is unpacked.
"""

import bz2
import gzip
import hashlib
import io
import lzma
import os
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath

from fairseq_posattn.errors import UsageError

COMPRESSIONS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
DAMAGE = (EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)


def open_archive(path):
    """An :class:`Archive` for a file or a folder.

    Raises:
        UsageError: there is neither.
    """
    path = Path(path)
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise UsageError(f"{path}: no such file or folder")
    if zipfile.is_zipfile(path):
        return Zip(path)
    opener, is_compressed = _decompressed(path)
    with _damage_told(path), opener() as stream:
        start = stream.read(tarfile.BLOCKSIZE)
    if _is_tar(start):
        return Tar(str(path), opener, lambda: _state(path))
    return SingleFile(path, opener, is_compressed)


def check_archive(path):
    """Read a file through, so that what is damaged or cut off shows now.

    Raises:
        UsageError: it is damaged.
    """
    for _, stream in open_archive(path).members():
        with _damage_told(path):
            while stream.read(1 << 20):
                pass


class Archive:
    """Named files to read. Names are paths with slashes, as in the archive."""

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
            UsageError: there is none; or, while it is read, that the archive is damaged.
        """
        with _damage_told(self.name):
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
        """The tar archive, compressed or not, that is a file of this one."""
        name = f"{self.name}/{member}"
        return Tar(name, lambda: _nested_stream(self, member), self.fingerprint)

    def fingerprint(self, *members):
        """Something that changes when the files do: the archive, or ``members`` of a folder.

        Without ``members`` it tells of all files of a folder.
        """
        raise NotImplementedError

    def _missing(self, member):
        return UsageError(f"{self.name}: holds no {member}")


class Folder(Archive):
    def __init__(self, path):
        super().__init__(str(path))
        self.path = path
        self._names = None

    def names(self):
        if self._names is None:
            self._names = sorted(
                (Path(folder) / file).relative_to(self.path).as_posix()
                for folder, _, files in os.walk(self.path)
                for file in files
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
        with (
            _damage_told(self.name),
            self.opener() as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            for member in tar:
                if member.isfile():
                    yield member.name.removeprefix("./"), tar.extractfile(member)
            while stream.read(1 << 20):
                pass  # to the checksum at the end of a compressed file


class Zip(Archive):
    def __init__(self, path):
        super().__init__(str(path))

    def names(self):
        with _damage_told(self.name), zipfile.ZipFile(self.name) as archive:
            return [item.filename for item in archive.infolist() if not item.is_dir()]

    def members(self):
        with _damage_told(self.name), zipfile.ZipFile(self.name) as archive:
            for item in archive.infolist():
                if not item.is_dir():
                    with archive.open(item) as stream:
                        yield item.filename, stream

    def fingerprint(self, *members):
        return _state(self.name)


class SingleFile(Archive):
    """One file, compressed or not, under its own name (without .gz and the like)."""

    def __init__(self, path, opener, is_compressed):
        super().__init__(str(path))
        self.path, self.opener, self.is_compressed = path, opener, is_compressed

    def label(self, member):
        return self.name

    def names(self):
        shortened = self.is_compressed and self.path.suffix in (".gz", ".bz2", ".xz")
        return [self.path.stem if shortened else self.path.name]

    def members(self):
        with _damage_told(self.name), self.opener() as stream:
            yield self.names()[0], stream

    def fingerprint(self, *members):
        return _state(self.path)


def _decompressed(path):
    """What opens a file so that it reads decompressed, and whether it is compressed."""
    with open(path, "rb") as file:
        start = file.read(6)
    for magic, opener in COMPRESSIONS.items():
        if start.startswith(magic):
            return partial(opener, path, "rb"), True
    return partial(open, path, "rb"), False


@contextmanager
def _nested_stream(archive, member):
    with archive.open(member) as stream:
        peekable = io.BufferedReader(stream)
        start = peekable.peek(6)
        for magic, opener in COMPRESSIONS.items():
            if start.startswith(magic):
                with opener(peekable, "rb") as decompressed:
                    yield decompressed
                return
        yield peekable


def _is_tar(start):
    try:
        tarfile.TarInfo.frombuf(start, tarfile.ENCODING, "surrogateescape")
    except tarfile.HeaderError:
        return False
    return True


@contextmanager
def _damage_told(name):
    try:
        yield
    except DAMAGE as error:
        raise UsageError(
            f"{name}: damaged or cut off ({error or 'unexpected end'}); fetch it again"
        ) from None
    except OSError as error:
        if error.errno is not None:  # gzip and bz2 tell of damage by an OSError without a number
            raise
        raise UsageError(f"{name}: damaged ({error}); fetch it again") from None


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
