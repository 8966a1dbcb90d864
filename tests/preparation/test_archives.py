"""Reading of archives and folders."""

import bz2
import lzma
import os

import pytest
from archive_files import gzipped, tarred, zipped

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.archives import check_archive, open_archive

FILES = {"data/de/text": b"eins\nzwei\n", "data/en/text": b"one\ntwo\n", "data/README": b"read\n"}
PACKED = {
    "plain.tar": tarred(FILES),
    "text.tgz": tarred(FILES, "gz"),
    "text.tar.bz2": tarred(FILES, "bz2"),
    "text.tar.xz": tarred(FILES, "xz"),
    "text.zip": zipped(FILES),
}


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture(params=[*PACKED, "misnamed.txt", "folder", "nested"])
def archive(request, tmp_path):
    kind = request.param
    if kind == "folder":
        for name, content in FILES.items():
            write(tmp_path / "folder" / name, content)
        return open_archive(tmp_path / "folder")
    if kind == "nested":
        outer = tarred({"texts/text.tgz": PACKED["text.tgz"], "other": b""}, "gz")
        return open_archive(write(tmp_path / "outer", outer)).nested("text.tgz")
    return open_archive(write(tmp_path / kind, PACKED.get(kind, PACKED["text.tgz"])))


def read(archive, member):
    with archive.open(member) as stream:
        return stream.read()


def test_all_kinds_are_read_alike(archive):
    assert sorted(archive.names()) == sorted(FILES)
    assert {name: stream.read() for name, stream in archive.members()} == FILES
    assert read(archive, "data/de/text") == b"eins\nzwei\n"
    assert read(archive, "en/text") == b"one\ntwo\n"
    assert archive.has("README")
    assert not archive.has("EADME")  # not a whole name


def test_two_members_can_be_read_at_once(archive):
    with archive.open("de/text") as german, archive.open("en/text") as english:
        assert list(zip(german, english, strict=True)) == [
            (b"eins\n", b"one\n"),
            (b"zwei\n", b"two\n"),
        ]


def test_missing_member_gives_a_one_line_error(archive):
    with pytest.raises(UsageError, match=f"^{archive.name}: holds no fr/text$"):
        archive.open("fr/text").__enter__()


@pytest.mark.parametrize("compress", [gzipped, bz2.compress, lzma.compress, bytes])
def test_a_compressed_file_is_its_only_member(tmp_path, compress):
    suffix = {gzipped: ".gz", bz2.compress: ".bz2", lzma.compress: ".xz", bytes: ""}[compress]
    archive = open_archive(write(tmp_path / f"text.de{suffix}", compress(b"eins\n")))
    assert archive.names() == ["text.de"]
    assert read(archive, "text.de") == b"eins\n"


def test_a_folder_prefers_the_file_nearer_its_root(tmp_path):
    write(tmp_path / "a" / "deeper" / "text", b"deep")
    write(tmp_path / "z" / "text", b"high")
    assert read(open_archive(tmp_path), "text") == b"high"
    with pytest.raises(UsageError, match="nowhere: no such file or folder"):
        open_archive(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["text.tgz", "text.tar.bz2", "text.tar.xz", "text.zip", "text.gz"])
def test_truncated_archives_are_detected(tmp_path, name):
    """Check archives cut at every seventh byte."""
    whole = PACKED.get(name, gzipped(b"eins\nzwei\n"))
    check_archive(write(tmp_path / "whole", whole))
    for length in range(1, len(whole), 7):
        path = write(tmp_path / "cut" / name, whole[:length])
        try:
            names = open_archive(path).names()
            check_archive(path)
        except UsageError as error:
            assert str(path) in str(error)
            assert "\n" not in str(error)
        else:
            assert names == [name]  # just some file


def test_the_fingerprint_depends_on_the_content(tmp_path):
    text, other = tmp_path / "text", tmp_path / "other"
    write(text, b"eins\n")
    write(other, b"one\n")
    whole, one = (open_archive(tmp_path).fingerprint(*names) for names in ((), ("text",)))
    assert open_archive(tmp_path).fingerprint() == whole
    write(other, b"one more\n")
    assert open_archive(tmp_path).fingerprint() != whole
    assert open_archive(tmp_path).fingerprint("text") == one
    before = text.stat().st_mtime_ns
    write(text, b"zwei\n")  # of equal size and time
    os.utime(text, ns=(before, before))
    assert open_archive(tmp_path).fingerprint("text") != one
