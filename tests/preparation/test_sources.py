"""Data sets in several files or at several addresses."""

import pytest
from archive_files import write_archive, write_folder

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import download
from fairseq_posattn.preparation.download import Source, obtain_any

PARTS = tuple(Source(f"{part}.zip", ("https://nowhere.invalid",)) for part in ("one", "two"))
WHOLE = (Source("whole.zip", ("https://nowhere.invalid",)),)


def content(archive, member):
    with archive.open(member) as stream:
        return stream.read()


def test_several_downloads_are_read_as_one_archive(tmp_path):
    for part in ("one", "two"):
        write_archive(tmp_path / f"{part}.zip", {f"{part}.txt": part})
    archive = obtain_any((PARTS, WHOLE), None, tmp_path)
    assert archive.names() == ["one.txt", "two.txt"]
    assert content(archive, "two.txt") == b"two"
    assert archive.label("two.txt") == f"{tmp_path}/two.zip/two.txt"
    with pytest.raises(UsageError, match="holds no three.txt"):
        content(archive, "three.txt")
    before = archive.fingerprint()
    write_archive(tmp_path / "two.zip", {"two.txt": "something else"})
    assert obtain_any((PARTS,), tmp_path, tmp_path).fingerprint() != before


def test_the_second_source_replaces_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "fairseq_posattn.preparation.download.fetch", fetch_nothing_but("whole.zip")
    )
    write_archive(tmp_path / "whole.zip", {"all.txt": "x"})
    assert obtain_any((PARTS, WHOLE), None, tmp_path).names() == ["all.txt"]


def test_failures_of_all_sources_are_reported(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(download, "fetch", fetch_nothing_but())
    with pytest.raises(UsageError, match="no one.zip; or else no whole.zip"):
        obtain_any((PARTS, WHOLE), None, tmp_path)
    assert capsys.readouterr().err == "no one.zip\n"  # the command prints the last failure


def fetch_nothing_but(*names):
    def fetch(source, folder):
        if source.name not in names:
            raise UsageError(f"no {source.name}")
        return folder / source.name

    return fetch


def test_a_source_folder_may_be_packed_or_unpacked(tmp_path):
    packed, unpacked = tmp_path / "packed", tmp_path / "unpacked"
    packed.mkdir()
    for part in ("one", "two"):
        write_archive(packed / f"{part}.zip", {f"{part}.txt": part})
    write_folder(unpacked / "folder", {"one.txt": "one", "two.txt": "two"})
    for given in (packed, packed / "one.zip", unpacked, unpacked / "folder"):
        assert content(obtain_any((WHOLE, PARTS), given, tmp_path), "one.txt") == b"one"
    with pytest.raises(UsageError, match="no such file or folder"):
        obtain_any((WHOLE, PARTS), tmp_path / "nowhere", tmp_path)
