"""Files that are whole or not there, whatever the name stands for."""

import argparse
import os
import resource
import stat
import subprocess
import sys

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import (
    check_writable,
    output_file,
    write_json,
    write_text,
    writing,
)


def test_a_file_has_its_name_when_it_is_whole(tmp_path):
    path = tmp_path / "text"
    with writing(path) as file:
        file.write("größer\n")
        assert not path.exists()
    assert path.read_bytes() == "größer\n".encode()
    assert os.listdir(tmp_path) == ["text"]


def test_bytes_and_json(tmp_path):
    with writing(tmp_path / "bytes", binary=True) as file:
        file.write(b"\0\r\n")
    assert (tmp_path / "bytes").read_bytes() == b"\0\r\n"
    write_json(tmp_path / "json", {"ö": 1}, indent=1)
    assert (tmp_path / "json").read_text(encoding="utf-8") == '{\n "ö": 1\n}\n'
    with pytest.raises(ValueError):
        write_json(tmp_path / "json", {"number": float("nan")})
    assert (tmp_path / "json").read_text(encoding="utf-8") == '{\n "ö": 1\n}\n'


def test_failure_leaves_what_was_there(tmp_path):
    path = tmp_path / "text"
    path.write_text("before")
    with pytest.raises(RuntimeError), writing(path) as file:
        file.write("half")
        raise RuntimeError
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["text"]


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing yet"])
def test_links_stay_and_what_they_lead_to_is_written(there, tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    if there:
        target.write_text("before")
    link.symlink_to(os.path.join("folder", "target"))
    write_text(link, "after")
    assert link.is_symlink()
    assert target.read_text() == "after"
    assert sorted(os.listdir(tmp_path)) == ["folder", "link"]
    assert os.listdir(tmp_path / "folder") == ["target"]


def test_permissions_stay(tmp_path):
    path = tmp_path / "script"
    path.write_text("before")
    path.chmod(0o751)
    write_text(path, "after")
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    write_text(tmp_path / "new", "")
    (tmp_path / "plain").write_text("")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_device_stays_a_device():
    write_text(os.devnull, "gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    with pytest.raises(UsageError, match="^/dev/full cannot be written: No space left on device$"):
        write_text("/dev/full", "x")


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "out"])
def test_standard_output_goes_where_it_went(name, tmp_path):
    """Redirected into a file, it is neither replaced nor written over by what is printed next."""
    program = (
        "from fairseq_posattn.common.files import write_text\n"
        f"print('one'); write_text({name!r}, 'two\\n'); print('three')"
    )
    with open(tmp_path / "out", "w") as out:
        environment = {**os.environ, "PYTHONPATH": os.getcwd()}
        subprocess.run(
            [sys.executable, "-c", program], stdout=out, cwd=tmp_path, env=environment, check=True
        )
    assert (tmp_path / "out").read_text() == "one\ntwo\nthree\n"


def test_a_folder_is_one_line_and_leaves_nothing(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for write in (lambda: write_text(folder, "text"), lambda: check_writable(folder)):
        with pytest.raises(UsageError, match=f"^{folder}.* a folder.* name a file in it$"):
            write()
    assert os.listdir(tmp_path) == ["folder"]
    assert os.listdir(folder) == []


def test_a_missing_folder_is_named(tmp_path):
    path = tmp_path / "nowhere" / "text"
    with pytest.raises(UsageError, match=f"^{path} cannot be written: No such file or directory$"):
        write_text(path, "text")
    with pytest.raises(UsageError, match=f"^--json {path}: there is no such folder; make it first"):
        check_writable(path, "--json")


def test_an_option_that_names_a_folder_ends_before_the_work(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=output_file)
    assert parser.parse_args(["--json", str(tmp_path / "new")]).json == str(tmp_path / "new")
    with pytest.raises(SystemExit):
        parser.parse_args(["--json", str(tmp_path)])
    assert f"--json: {tmp_path} is a folder: name a file in it" in capsys.readouterr().err


def test_what_can_be_written_passes_the_check(tmp_path):
    (tmp_path / "there").write_text("")
    (tmp_path / "link").symlink_to("there")
    for path in (tmp_path / "there", tmp_path / "new", tmp_path / "link", os.devnull, "name"):
        check_writable(path)


def test_a_full_disk_names_the_file_and_leaves_what_was_there(tmp_path):
    path = tmp_path / "text"
    path.write_text("before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(UsageError, match=f"^{path} cannot be written: File too large$"):
            write_text(path, "x" * 200_000)
        with pytest.raises(UsageError, match=f"^{path} cannot be written"), writing(path) as file:
            file.write("x" * 99_999)
            file.write("xx")  # what is not written before the end of the block
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["text"]


def test_errors_of_other_files_keep_their_names(tmp_path):
    path, other = tmp_path / "text", tmp_path / "other"
    with pytest.raises(FileNotFoundError) as error, writing(path):
        other.read_text()
    assert error.value.filename == str(other)
    assert os.listdir(tmp_path) == []


def test_a_file_that_is_closed_to_writing_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "kept"
    path.write_text("before")
    monkeypatch.setattr(os, "access", lambda *asked: False)  # root may do anything
    with pytest.raises(UsageError, match=f"^{path} cannot be written: Permission denied$"):
        write_text(path, "after")
    assert path.read_text() == "before"


def test_of_two_writers_the_last_one_wins(tmp_path):
    path = tmp_path / "text"
    with writing(path) as first:
        first.write("first")
        write_text(path, "second")
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["text"]
