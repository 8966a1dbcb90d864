"""Archives that mean harm: nothing outside, bounded memory, one line each."""

import bz2
import gzip
import io
import lzma
import os
import struct
import tarfile
import tracemalloc
import zipfile
import zlib

import pytest
from packing import gzipped, tarred, zipped

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import unpacking
from fairseq_posattn.preparation.archives import open_archive
from fairseq_posattn.preparation.corpora.cnn_dailymail import stories
from fairseq_posattn.text.lines import read_lines

NAMES = {
    "a parent": "../text",
    "a parent further on": "data/../../text",
    "an absolute path": "/tmp/posattn-text",
    "an empty name": "",
    "a dot": ".",
    "a backslash": "..\\text",
    "a new line": "te\nxt",
    "a zero": "te\0xt",
    "half a character": "te\udcffxt",
}


def tar_of(*members):
    """A tar of ``(TarInfo, content)``."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for member, content in members:
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def header(name, size, kind=tarfile.REGTYPE):
    """The header of a file, whatever size it claims."""
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
    """All that can be read of an archive; it ends, or is refused in one line."""
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


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_of_a_tar_lead_nowhere(write, name):
    path = write(tar_of((tarfile.TarInfo(name), b"harm"), (tarfile.TarInfo("text"), b"good")))
    assert read_all(path)["text"] in (b"good", b"harm")


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_of_a_zip_lead_nowhere(write, name):
    packed = zipped({"N" * max(1, len(name.encode("utf-8", "replace"))): b"harm", "text": b"good"})
    placed = name.encode("utf-8", "replace") or b"N"
    path = write(packed.replace(b"N" * len(placed), placed))
    read = read_all(path)
    assert isinstance(read, str) or read["text"] in (b"good", b"harm")


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE],
    ids=["symbolic link", "hard link", "character device", "block device", "pipe"],
)
def test_links_and_devices_are_no_files(write, kind):
    link = tarfile.TarInfo("text")
    link.type, link.linkname, link.devmajor, link.devminor = kind, "/etc/passwd", 1, 5
    assert read_all(write(tar_of((link, b""), (tarfile.TarInfo("other"), b"x")))) == {"other": b"x"}


def test_devices_and_pipes_of_a_folder_are_no_files(tmp_path):
    os.mkfifo(tmp_path / "text")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "other").write_bytes(b"x")
    assert open_archive(tmp_path).names() == ["other"]
    for path in ("text", "link"):
        with pytest.raises(UsageError, match="no such file or folder"):
            open_archive(tmp_path / path)


@pytest.mark.parametrize("size", [-1, -512, -(1 << 62), 1 << 62])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_sizes_of_a_tar_that_cannot_be_are_refused(write, size, kind):
    told = read_all(write(header("text", size, kind) + b"x" * 512 + bytes(1024)))
    assert "damaged or cut off" in told


def test_a_sparse_file_is_refused(write):
    member = tarfile.TarInfo("text")
    member.pax_headers = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "text",
        "GNU.sparse.realsize": str(1 << 60),
    }
    told = read_all(write(tar_of((member, b"1\n0\n1\n".ljust(512, b"\0") + b"x"))))
    assert "sparse" in told
    told = read_all(write(header("text", 512, tarfile.GNUTYPE_SPARSE) + b"x" * 512 + bytes(1024)))
    assert "sparse" in told


def test_headers_about_headers_end(write):
    extended = header("x", 20, tarfile.XHDTYPE) + b"20 comment=xxxxxxxx\n".ljust(512, b"\0")
    assert "damaged" in read_all(write(extended * 5000 + bytes(1024)))


def compressed(first, count, compressor):
    """``first`` and then ``count`` zeros, some MiB, compressed without holding them."""
    chunks = [compressor.compress(first)]
    chunks += [compressor.compress(bytes(1 << 20)) for _ in range(count >> 20)]
    return b"".join(chunks) + compressor.flush()


COMPRESSORS = {
    "gz": lambda: zlib.compressobj(9, zlib.DEFLATED, 31),
    "bz2": bz2.BZ2Compressor,
    "xz": lzma.LZMACompressor,
}


@pytest.fixture
def small_limits(monkeypatch):
    """Bombs need not be large to be tried."""
    monkeypatch.setattr(unpacking, "ALWAYS_ALLOWED", 1 << 22)


def peak(function):
    tracemalloc.start()
    try:
        result = function()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def through(path):
    """Read an archive through as data sets are read, by lines."""
    for name, stream in open_archive(path).members():
        for _ in read_lines(stream, f"{path}/{name}", allow_empty=True):
            pass


def refused_in_little_memory(path, match):
    def run():
        with pytest.raises(UsageError, match=match) as caught:
            through(path)
        assert "\n" not in str(caught.value)

    _, memory = peak(run)
    assert memory < 1 << 26


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_a_bomb_in_one_file_is_refused(write, small_limits, kind):
    path = write(compressed(b"", 1 << 25, COMPRESSORS[kind]()))
    told = read_all(path)
    assert "unpacks to more than" in told or "100 times what it is" in told


@pytest.mark.parametrize("kind", COMPRESSORS)
def test_a_bomb_in_a_tar_is_refused(write, small_limits, kind):
    path = write(compressed(header("text", 1 << 25), 1 << 25, COMPRESSORS[kind]()))
    assert "unpacks to more than" in read_all(path)


def test_a_bomb_in_a_zip_is_refused(write, small_limits):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(8):
            archive.writestr(f"text{number}", bytes(1 << 22))
    assert "unpacks to more than" in read_all(write(packed.getvalue()))


def test_a_bomb_in_a_nested_tar_is_refused(write, monkeypatch):
    inner = compressed(header("text", 1 << 25), 1 << 25, COMPRESSORS["gz"]())
    path = write(gzipped(tarred({"de-en.tgz": inner})))
    archive = open_archive(path).nested("de-en.tgz")
    monkeypatch.setattr(unpacking, "LARGEST", 1 << 22)
    with pytest.raises(UsageError, match="unpacks to more than"):
        [stream.read() for _, stream in archive.members()]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_of_gigabytes_is_not_read(write, kind):
    path = write(compressed(header("x", 5 << 30, kind), 1 << 24, COMPRESSORS["gz"]()))
    refused_in_little_memory(path, "damaged or cut off .a header of 5,368,709,120 bytes")


def test_a_line_without_end_is_not_read(write):
    line = compressed(header("text", 1 << 27), 1 << 27, COMPRESSORS["gz"]())
    path = write(line)
    refused_in_little_memory(path, "text:1: a line of more than 16,777,216 bytes is no text")


@pytest.mark.slow
def test_many_empty_files_take_little_memory(write):
    empty = b"".join(header(f"file{number}", 0) for number in range(2000))
    path = write(gzip.compress(empty * 10 + bytes(1024)))
    _, memory = peak(lambda: through(path))
    assert memory < 1 << 23


def test_a_zip_whose_list_of_files_is_too_long_is_not_read(write):
    packed = bytearray(zipped({"text": b"x"}))
    at = packed.rfind(b"PK\5\6")
    packed[at + 12 : at + 16] = struct.pack("<L", 1 << 30)
    told = read_all(write(bytes(packed)))
    assert "its list of files has 1,073,741,824 bytes" in told


def test_an_encrypted_zip_is_one_line(write):
    packed = bytearray(zipped({"text": b"some text"}))
    for mark, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        packed[packed.find(mark) + offset] |= 1
    told = read_all(write(bytes(packed), "text.zip"))
    assert "text.zip/text: cannot be read (" in told and "encrypted" in told


def test_a_zip_of_an_unknown_method_is_one_line(write):
    packed = bytearray(zipped({"text": b"some text"}))
    for mark, offset in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        packed[packed.find(mark) + offset] = 99
    told = read_all(write(bytes(packed), "text.zip"))
    assert "text.zip/text: cannot be read (" in told and "compression" in told


def test_every_changed_byte_of_a_zip_is_read_or_refused(write):
    whole = zipped({"text": b"some text\n" * 3, "other": b"x"})
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        read_all(write(bytes(changed)))


def test_every_changed_byte_of_a_tar_is_read_or_refused(write):
    member = tarfile.TarInfo("text" * 40)
    member.pax_headers = {"comment": "some comment"}
    whole = tar_of((member, b"some text\n"))
    for at in [at for at in range(len(whole)) if whole[at]]:
        changed = bytearray(whole)
        changed[at] ^= 0xFF
        read_all(write(bytes(changed)))


def test_stories_that_hold_themselves_end(write):
    inner = tarred({"cnn_stories.tgz": b"", "a.story": b"x"}, "gz")
    for _ in range(50):
        inner = tarred({"deep/cnn_stories.tgz": inner, "b.story": b"x"}, "gz")
    assert [name for name, _, _ in stories(open_archive(write(inner)))] == ["b", "b"]
