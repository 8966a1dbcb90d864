"""Archives of models are unpacked into one folder, and stay."""

import contextlib
import io
import os
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from fairseq import file_utils

from fairseq_posattn import compat
from fairseq_posattn.common import archives
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.compat import model_archives

compat.apply()


def archive(path, members, mode="w:gz"):
    """Members: name to content, or to what else a member is."""
    with tarfile.open(path, mode) as tar:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            data = b"" if isinstance(content, tarfile.TarInfo) else content
            info.name, info.size = name, len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def visible(folder):
    return sorted(path.name for path in folder.glob("[!.]*"))


def link(kind, to):
    info = tarfile.TarInfo()
    info.type, info.linkname = kind, str(to)
    return info


@pytest.mark.parametrize(
    "ending, mode", [("gz", "w:gz"), ("bz2", "w:bz2"), ("xz", "w:xz"), ("", "w")]
)
@pytest.mark.parametrize("top", ["model/", ""])
def test_a_model_is_unpacked_beside_its_archive(tmp_path, ending, mode, top):
    members = [(f"{top}model.pt", b"weights"), (f"{top}dict/a.txt", b"a 1\n")]
    path = archive(tmp_path / f"model.tar.{ending}", members, mode)
    whole = path.read_bytes()
    for _ in range(2):
        folder = file_utils.load_archive_file(str(path))
        assert folder == f"{path}.unpacked"
        assert (tmp_path / folder / "model.pt").read_bytes() == b"weights"
        assert (tmp_path / folder / "dict" / "a.txt").read_bytes() == b"a 1\n"
    assert path.read_bytes() == whole
    assert visible(tmp_path) == [path.name, f"{path.name}.unpacked"]


def test_a_newer_archive_is_unpacked_again(tmp_path):
    path = archive(tmp_path / "model.tar", [("m/model.pt", b"old")], "w")
    folder = tmp_path / file_utils.load_archive_file(str(path))
    archive(path, [("m/model.pt", b"new")], "w")
    later = folder.stat().st_mtime + 10
    os.utime(path, (later, later))
    assert (tmp_path / file_utils.load_archive_file(str(path)) / "model.pt").read_bytes() == b"new"


def test_a_folder_is_taken_as_it_is(tmp_path):
    assert file_utils.load_archive_file(str(tmp_path)) == str(tmp_path)
    assert file_utils.load_archive_file(str(tmp_path / "nothing")) is None


@pytest.mark.parametrize(
    "members",
    [
        [("../outside", b"x")],
        [("a/../../outside", b"x")],
        [("a", link(tarfile.SYMTYPE, "{folder}")), ("a/outside", b"x")],
        [("a", link(tarfile.SYMTYPE, "../..")), ("a/outside", b"x")],
        [("a", link(tarfile.LNKTYPE, "{folder}/victim")), ("a", b"x")],
        [("a", link(tarfile.FIFOTYPE, ""))],
        [("a", link(tarfile.CHRTYPE, ""))],
        [("a", b"x"), ("a/b", b"y")],
    ],
    ids=[
        *("up", "through", "link", "links", "hard link", "fifo", "device", "file as folder"),
    ],
)
def test_nothing_is_written_elsewhere(tmp_path, members):
    folder = tmp_path / "models"
    folder.mkdir()
    victim = folder / "victim"
    victim.write_text("mine")
    for _, content in members:
        if isinstance(content, tarfile.TarInfo):
            content.linkname = content.linkname.format(folder=folder)
    named = [(name.format(folder=folder), content) for name, content in members]
    path = archive(folder / "model.tar.gz", named)
    whole = path.read_bytes()
    with pytest.raises(UsageError, match=f"^{path}(: damaged| cannot be unpacked)[^\n]*$"):
        file_utils.load_archive_file(str(path))
    assert victim.read_text() == "mine"
    assert path.read_bytes() == whole
    assert visible(folder) == ["model.tar.gz", "victim"]
    assert visible(tmp_path) == ["models"]


def test_damaged_archives(tmp_path):
    path = archive(tmp_path / "model.tar.gz", [("model.pt", b"weights" * 1000)])
    whole = path.read_bytes()
    for content in (b"", b"PK", whole[:20], whole[:-20], b"<html>404</html>" * 100):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=f"^{path}(: damaged| cannot be unpacked)[^\n]*$"):
            file_utils.load_archive_file(str(path))
    assert visible(tmp_path) == ["model.tar.gz"]


def test_many_empty_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "ALLOWANCE", 100 * archives.BLOCK)
    path = archive(tmp_path / "model.tar.gz", [(f"model/{number}", b"") for number in range(1000)])
    with pytest.raises(UsageError, match=f"^{path}: .*it would become much larger than it is"):
        file_utils.load_archive_file(str(path))


def test_deep_folders_are_one_line(tmp_path):
    path = archive(tmp_path / "model.tar.gz", [("m/" * 1500, link(tarfile.DIRTYPE, ""))])
    with pytest.raises(UsageError, match=f"^{path}(: damaged| cannot be unpacked)[^\n]*$"):
        file_utils.load_archive_file(str(path))


def test_two_processes_unpack_once(tmp_path, monkeypatch):
    """The second does not take away the folder that the first reads."""
    path = archive(tmp_path / "model.tar.gz", [("model/model.pt", b"weights")])
    both, unpack, done = threading.Barrier(2), model_archives._unpack_into, []

    def unpack_together(*arguments):
        with contextlib.suppress(threading.BrokenBarrierError):
            both.wait(timeout=1)
        done.append(unpack(*arguments))

    monkeypatch.setattr(model_archives, "_unpack_into", unpack_together)
    with ThreadPoolExecutor() as pool:
        folders = list(pool.map(file_utils.load_archive_file, [str(path)] * 2))
    assert folders == [f"{path}.unpacked"] * 2
    assert len(done) == 1


@pytest.mark.parametrize("what", ["file", "header"])
def test_a_bomb_takes_neither_disk_nor_memory(tmp_path, what):
    path = tmp_path / "model.tar"
    size = 1 << 40
    info = tarfile.TarInfo("bomb")
    info.size, info.type = size, tarfile.REGTYPE if what == "file" else tarfile.XHDTYPE
    path.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(4096))
    with pytest.raises(UsageError, match="damaged or cut off .(it would become|a header)"):
        file_utils.load_archive_file(str(path))
