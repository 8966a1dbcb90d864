"""Archives and folders; hostile archives write nothing outside and need bounded memory."""

import bz2
import lzma
import os
import tarfile
import tracemalloc
import zlib

import pytest
from archive_files import gzipped, tarred, write_folder, zipped

from fairseq_posattn.common import archives
from fairseq_posattn.common.archives import unpack_tar
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import Folder, open_archive
from fairseq_posattn.preparation.corpora.cnn_dailymail import stories
from fairseq_posattn.text.lines import read_lines

FILES = {"data/de/text": b"eins\nzwei\n", "data/en/text": b"one\ntwo\n", "data/README": b"read\n"}
WRITTEN = {"data/de/._text": b"\0\5\26\7", **FILES}  # with a file that macOS adds
PACKED = {
    "plain.tar": tarred(WRITTEN),
    "text.tgz": tarred(WRITTEN, "gz"),
    "text.tar.bz2": tarred(WRITTEN, "bz2"),
    "text.tar.xz": tarred(WRITTEN, "xz"),
    "text.zip": zipped(WRITTEN),
}


@pytest.fixture
def write(tmp_path):
    """Return ``write(content, name)``, a file in a folder beside which nothing may appear."""

    def write(content, name="archive"):
        folder = tmp_path / "inside"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
        return folder / name

    yield write
    assert [path.name for path in tmp_path.iterdir()] == ["inside"]
    assert not os.path.exists("/tmp/posattn-text")


@pytest.fixture(params=[*PACKED, "misnamed.txt", "folder", "nested"])
def archive(request, write):
    kind = request.param
    path = write(PACKED.get(kind, PACKED["text.tgz"]), kind)
    if kind == "folder":
        path.unlink()
        write_folder(path, WRITTEN)
    if kind == "nested":
        write(tarred({"texts/text.tgz": PACKED["text.tgz"], "other": b""}, "gz"), kind)
        return open_archive(path).nested("text.tgz")
    return open_archive(path)


def read(archive, member):
    with archive.open(member) as stream:
        return stream.read()


def read_all(path):
    """Return all readable members of an archive, or its error message."""
    try:
        return {name: stream.read() for name, stream in open_archive(path).members()}
    except UsageError as error:
        assert "\n" not in str(error)
        assert str(path) in str(error)
        assert len(str(error)) < len(str(path)) + 300
        return str(error)


def test_all_kinds_are_read_alike(archive):
    assert sorted(archive.names) == sorted(FILES)
    assert {name: stream.read() for name, stream in archive.members()} == FILES
    assert read(archive, "data/de/text") == b"eins\nzwei\n"
    assert read(archive, "en/text") == b"one\ntwo\n"
    assert archive.has("README")
    assert not archive.has("EADME")  # not a whole name
    with pytest.raises(UsageError, match=f"^{archive.name}: holds no fr/text$"):
        archive.open("fr/text").__enter__()


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzipped), (".bz2", bz2.compress), (".xz", lzma.compress), ("", bytes)],
)
def test_a_compressed_file_is_its_only_member(write, suffix, compress):
    path = write(compress(b"eins\n"), f"text.de{suffix}")
    assert read_all(path) == {"text.de": b"eins\n"}


def test_a_folder_prefers_the_file_nearer_its_root(tmp_path):
    folder = write_folder(tmp_path, {"a/deeper/text": b"deep", "z/text": b"high"})
    assert read(open_archive(folder), "text") == b"high"
    with pytest.raises(UsageError, match="nowhere: no such file or folder"):
        open_archive(tmp_path / "nowhere")


def test_linked_folders_are_read_once(tmp_path):
    folder, elsewhere = (write_folder(tmp_path / name, FILES) for name in ("a", "b"))
    (folder / "more").symlink_to(elsewhere)
    (elsewhere / "data/up").symlink_to(elsewhere)
    assert open_archive(folder).names == sorted([*FILES, *(f"more/{name}" for name in FILES)])


def test_a_pipe_is_no_missing_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe: a pipe, but files are read several times; write"):
        open_archive(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["text.tgz", "text.tar.bz2", "text.tar.xz", "text.zip", "text.gz"])
def test_truncated_archives_are_detected(write, name):
    """Check archives cut at every seventh byte."""
    whole = PACKED.get(name, gzipped(b"eins\nzwei\n"))
    for length in range(1, len(whole), 7):
        result = read_all(write(whole[:length], name))
        assert isinstance(result, str) or [*result] == [name]  # just some file


def test_a_tar_is_read_to_the_checksum_of_its_compression(write):
    whole = bytearray(gzipped(tarred(FILES) + bytes(1 << 20)))
    whole[-8] ^= 1
    assert "CRC check failed" in read_all(write(bytes(whole), "text.tgz"))


def test_the_fingerprint_depends_on_the_content(write):
    text = write(b"eins\n", "text")
    seen = []
    for content in (b"one\n", b"one more\n"):
        write(content, "other")
        seen += [open_archive(text.parent).fingerprint() for _ in range(2)]
    before = text.stat().st_mtime_ns
    write(b"zwei\n", "text")  # of equal size and time
    os.utime(text, ns=(before, before))
    seen.append(open_archive(text.parent).fingerprint())
    assert seen[0] == seen[1] and seen[2] == seen[3] and len(set(seen)) == 3


def header(name, size, kind=tarfile.REGTYPE):
    """Return the header of a file, whatever size it claims."""
    member = tarfile.TarInfo(name)
    member.type = kind
    content = bytearray(member.tobuf(tarfile.GNU_FORMAT))
    start = b"\x80" if size >= 0 else b"\xff"
    content[124:136] = start + size.to_bytes(11, "big", signed=True)
    content[148:156] = b" " * 8
    content[148:156] = b"%06o\0 " % sum(content)
    return bytes(content)


@pytest.mark.parametrize("name", ["../text", "/tmp/posattn-text", "", "te\nxt", "te\0xt"])
def test_names_in_archives_are_no_paths(write, name):
    path = write(tarred({name: b"harm", "text": b"good"}))
    assert read_all(path)["text"] in (b"good", b"harm")
    encoded = name.encode() or b"N"
    packed = zipped({"N" * len(encoded): b"harm", "text": b"good"})
    result = read_all(write(packed.replace(b"N" * len(encoded), encoded)))
    assert isinstance(result, str) or result["text"] in (b"good", b"harm")


def link(name, target, kind=tarfile.SYMTYPE):
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def chained_links():
    """Return members that leave the folder through links longer than a path may be."""
    members, long, path, steps = {}, "d" * 247, "", "abcdefghijklmnop"
    for step in steps:
        folder = tarfile.TarInfo(f"{path}{long}")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        members |= {folder: b"", link(f"{path}{step}", long): b""}
        path += f"{long}/"
    end = "/".join(steps) + "/" + "l" * 254
    members |= {link(end, "../" * len(steps)): b"", link("escape", f"{end}/../.."): b""}
    return members | {"escape/text": b"harm"}


OUTSIDE = {
    "parent": {"../text": b"harm"},
    "absolute": {"/tmp/posattn-text": b"harm"},
    "link": {link("link", ".."): b"", "link/text": b"harm"},
    "hard link": {"text": b"", link("other", "text", tarfile.LNKTYPE): b""},
    "link inside": {"text": b"", link("other", "text"): b""},
    "device": {link("text", "", tarfile.CHRTYPE): b""},
    "deep": {"a/" * 900 + "text": b"harm"},
    "chained links": chained_links(),
}


def unpack(path):
    folder = path.parent / "unpacked"
    folder.mkdir(exist_ok=True)
    unpack_tar(path, folder)
    return folder


@pytest.mark.parametrize("members", OUTSIDE.values(), ids=OUTSIDE)
def test_only_files_and_folders_are_unpacked(write, members):
    path = write(tarred(members))
    with pytest.raises(UsageError, match=f"^{path} is refused: '.*; pack files and folders alone$"):
        unpack(path)
    unpacked = [*(path.parent / "unpacked").rglob("*")]
    assert all(entry.is_dir() or not entry.stat().st_size for entry in unpacked)
    assert not any(entry.is_symlink() for entry in unpacked)


def test_unpacking_is_bounded(write, monkeypatch):
    monkeypatch.setattr(archives, "ALLOWANCE", 1 << 20)
    for members in ({f"a{n}": b"" for n in range(500)}, {"a": bytes(3 << 20)}):
        path = write(tarred(members, "gz"))
        with pytest.raises(UsageError, match=f"^{path} is refused: it would become much larger"):
            unpack(path)


def test_a_full_disk_names_archive_and_folder(write):
    path = write(tarred({"text": b"words"}))
    folder = path.parent / "unpacked"
    folder.mkdir()
    (folder / "text").symlink_to("/dev/full")
    with pytest.raises(UsageError, match=f"^{path} cannot be unpacked to {folder}: No space left"):
        unpack(path)


def test_unpacked_files_are_the_users(write):
    script = tarfile.TarInfo("folder/script")
    script.mode, script.uid, script.gid, script.uname = 0o6777, 12345, 12345, "daemon"
    unpacked = unpack(write(tarred({script: b"text"}))) / "folder" / "script"
    assert unpacked.read_bytes() == b"text"
    assert unpacked.stat().st_uid == os.getuid()
    assert not unpacked.stat().st_mode & 0o6111


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices_are_not_read(write, kind):
    member = link("text", "/etc/passwd", kind)
    member.devmajor, member.devminor = 1, 5
    assert read_all(write(tarred({member: b"", "other": b"x"}))) == {"other": b"x"}


def test_nested_extended_headers_are_refused(write):
    extended = header("x", 20, tarfile.XHDTYPE) + b"20 comment=xxxxxxxx\n".ljust(512, b"\0")
    assert "damaged" in read_all(write(extended * 5000 + bytes(1024)))


@pytest.mark.parametrize("size", [-1, -(1 << 62), 1 << 62])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME])
def test_impossible_sizes_in_a_tar_are_refused(write, size, kind):
    message = read_all(write(header("text", size, kind) + b"x" * 512 + bytes(1024)))
    assert "damaged or cut off" in message


def compressed(first, count):
    """Return ``first`` and then ``count`` zeros, gzipped without holding them in memory."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    chunks = [compressor.compress(first)]
    chunks += [compressor.compress(bytes(1 << 20)) for _ in range(count >> 20)]
    return b"".join(chunks) + compressor.flush()


@pytest.mark.parametrize(
    ("size", "kind", "zeros", "match"),
    [
        (5 << 30, tarfile.XHDTYPE, 1 << 24, "damaged or cut off .a header of 5,368,709,120 bytes"),
        (5 << 30, tarfile.GNUTYPE_LONGNAME, 1 << 24, "a header of 5,368,709,120 bytes"),
        (1 << 27, tarfile.REGTYPE, 1 << 27, "text:1: a line of more than 16,777,216 bytes"),
    ],
)
def test_memory_is_bounded(write, size, kind, zeros, match):
    path = write(compressed(header("text", size, kind), zeros))
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=match):
            for name, stream in open_archive(path).members():
                list(read_lines(stream, f"{path}/{name}", allow_empty=True))
        assert tracemalloc.get_traced_memory()[1] < 1 << 26
    finally:
        tracemalloc.stop()


MEMBER = tarfile.TarInfo("text" * 40)
MEMBER.pax_headers = {"comment": "some comment"}


WHOLE = {
    "zip": zipped({"text": b"some text\n" * 3, "other": b"x"}),
    "tar": tarred({MEMBER: b"some text\n"}),
    "bz2": bz2.compress(b"some text"),
    "xz": lzma.compress(b"some text"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_every_changed_byte_is_read_or_refused(write, name):
    for index in [index for index, byte in enumerate(WHOLE[name]) if byte]:
        changed = bytearray(WHOLE[name])
        changed[index] ^= 0xFF
        read_all(write(bytes(changed)))


def test_nested_archives_of_stories_are_read_two_levels_deep(write):
    inner = tarred({"cnn_stories.tgz": b"", "a.story": b"x"}, "gz")
    for _ in range(50):
        inner = tarred({"deep/cnn_stories.tgz": inner, "b.story": b"x"}, "gz")
    assert [name for name, _, _ in stories(open_archive(write(inner)))] == ["b", "b"]


def test_a_folder_is_not_searched_for_each_line(tmp_path, monkeypatch):
    find, searches = Folder._find, []
    monkeypatch.setattr(Folder, "_find", lambda *names: searches.append(names) or find(*names))
    folder = open_archive(write_folder(tmp_path, {"text": "a\n" * 9}))
    assert len(list(folder.numbered_lines("text"))) == 9
    assert len(searches) < 9
