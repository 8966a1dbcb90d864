"""Hostile archives: nothing is written outside, memory is bounded, errors are one line."""

import bz2
import io
import lzma
import os
import tarfile
import tracemalloc
import zlib

import pytest
from archive_files import tarred, zipped

from fairseq_posattn.common.archives import unpack_tar
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora.cnn_dailymail import stories
from fairseq_posattn.text.lines import read_lines


def tar_of(*members):
    """Return a tar of ``(TarInfo, content)``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def header(name, size, kind=tarfile.REGTYPE):
    """Return the header of a file, whatever size it claims."""
    member = tarfile.TarInfo(name)
    member.type = kind
    content = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    content[124:136] = (
        b"\x80" + size.to_bytes(11, "big")
        if size >= 0
        else b"\xff" * 4 + size.to_bytes(8, "big", signed=True)
    )
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content)
    return bytes(content)


def read_all(path):
    """Return all readable members of an archive, or its error message."""
    try:
        return {name: stream.read() for name, stream in open_archive(path).members()}
    except UsageError as error:
        assert "\n" not in str(error)
        assert str(path) in str(error)
        assert len(str(error)) < len(str(path)) + 300
        return str(error)


@pytest.fixture
def write(tmp_path):
    def write(content, name="archive"):
        folder = tmp_path / "inside"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
        return folder / name

    yield write
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert not os.path.exists("/tmp/posattn-text")


@pytest.mark.parametrize("name", ["../text", "/tmp/posattn-text", "", "te\nxt", "te\0xt"])
def test_names_in_archives_are_no_paths(write, name):
    path = write(tar_of((tarfile.TarInfo(name), b"harm"), (tarfile.TarInfo("text"), b"good")))
    assert read_all(path)["text"] in (b"good", b"harm")
    encoded = name.encode() or b"N"
    packed = zipped({"N" * len(encoded): b"harm", "text": b"good"})
    result = read_all(write(packed.replace(b"N" * len(encoded), encoded)))
    assert isinstance(result, str) or result["text"] in (b"good", b"harm")


@pytest.mark.parametrize("name", ["../text", "data/../../text", "link/text"])
def test_unpacking_writes_nothing_outside(write, name):
    link = tarfile.TarInfo("link")
    link.type, link.linkname = tarfile.SYMTYPE, ".."
    path = write(tar_of((link, b""), (tarfile.TarInfo(name), b"harm")))
    (path.parent / "unpacked").mkdir()
    with pytest.raises(UsageError, match=f"^{path}: damaged or cut off .*outside"):
        unpack_tar(path, path.parent / "unpacked")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_not_read(write, kind):
    link = tarfile.TarInfo("text")
    link.type, link.linkname, link.devmajor, link.devminor = kind, "/etc/passwd", 1, 5
    assert read_all(write(tar_of((link, b""), (tarfile.TarInfo("other"), b"x")))) == {"other": b"x"}


@pytest.mark.parametrize("size", [-1, -(1 << 62), 1 << 62])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_impossible_sizes_in_a_tar_are_refused(write, size, kind):
    message = read_all(write(header("text", size, kind) + b"x" * 512 + bytes(1024)))
    assert "damaged or cut off" in message


def test_nested_extended_headers_are_refused(write):
    extended = header("x", 20, tarfile.XHDTYPE) + b"20 comment=xxxxxxxx\n".ljust(512, b"\0")
    assert "damaged" in read_all(write(extended * 5000 + bytes(1024)))


def compressed(first, count):
    """Return ``first`` and then ``count`` zeros, gzipped without holding them in memory."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunks = [compressor.compress(first)]
    chunks += [compressor.compress(bytes(1 << 20)) for _ in range(count >> 20)]
    return b"".join(chunks) + compressor.flush()


def read_lines_of_all(path):
    for name, stream in open_archive(path).members():
        for _ in read_lines(stream, f"{path}/{name}", allow_empty=True):
            pass


def peak_memory(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("size", "kind", "zeros", "match"),
    [
        (5 << 30, tarfile.XHDTYPE, 1 << 24, "damaged or cut off .a header of 5,368,709,120 bytes"),
        (5 << 30, tarfile.GNUTYPE_LONGNAME, 1 << 24, "a header of 5,368,709,120 bytes"),
        (1 << 27, tarfile.REGTYPE, 1 << 27, "text:1: a line of more than 16,777,216 bytes"),
    ],
    ids=["extended header", "long name", "line"],
)
def test_memory_is_bounded(write, size, kind, zeros, match):
    path = write(compressed(header("text", size, kind), zeros))

    def read():
        with pytest.raises(UsageError, match=match):
            read_lines_of_all(path)

    assert peak_memory(read) < 1 << 26


MEMBER = tarfile.TarInfo("text" * 40)
MEMBER.pax_headers = {"comment": "some comment"}


@pytest.mark.parametrize(
    "whole",
    [
        zipped({"text": b"some text\n" * 3, "other": b"x"}),
        tar_of((MEMBER, b"some text\n")),
        bz2.compress(b"some text"),
        lzma.compress(b"some text"),
    ],
    ids=["zip", "tar", "bz2", "xz"],
)
def test_every_changed_byte_is_read_or_refused(write, whole):
    for place in [place for place in range(len(whole)) if whole[place]]:
        changed = bytearray(whole)
        changed[place] ^= 0xFF
        read_all(write(bytes(changed)))


def test_nested_archives_of_stories_are_read_two_levels_deep(write):
    inner = tarred({"cnn_stories.tgz": b"", "a.story": b"x"}, "gz")
    for _ in range(50):
        inner = tarred({"deep/cnn_stories.tgz": inner, "b.story": b"x"}, "gz")
    assert [name for name, _, _ in stories(open_archive(write(inner)))] == ["b", "b"]
