"""Atomic writing of files, and locks."""

import argparse
import errno
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from fairseq_posattn.common import files
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.common.files import (
    check_writable,
    locked,
    unfinished_folder,
    write_json,
    write_text,
    writing,
)


def test_a_file_gets_its_name_once_it_is_complete(tmp_path):
    path = tmp_path / "text"
    with writing(path) as first:
        first.write("größer\n")
        assert not path.exists()
        write_text(path, "second")  # the last of two writers wins
    assert path.read_bytes() == "größer\n".encode()
    assert os.listdir(tmp_path) == ["text"]
    with writing(path, binary=True) as file:
        file.write(b"\0\r\n")
    assert path.read_bytes() == b"\0\r\n"
    write_json(path, {"ö": 1}, indent=1)
    with pytest.raises(ValueError):
        write_json(path, {"number": float("nan")})
    assert path.read_text(encoding="utf-8") == '{\n "ö": 1\n}\n'
    latin = os.fsdecode("größe.de".encode("latin-1"))
    write_json(path, {"name": latin})
    assert json.loads(path.read_text(encoding="utf-8")) == {"name": latin}


def test_parts_of_killed_writers_are_removed(tmp_path):
    program = """
import os, signal, sys
from fairseq_posattn.common.files import writing
with writing(sys.argv[1]) as file:
    os.kill(os.getpid(), signal.SIGKILL)
"""
    path = tmp_path / "text[1]"
    subprocess.run([sys.executable, "-c", program, path])
    (part,) = os.listdir(tmp_path)
    assert part.startswith(".text[1].") and part.endswith(".part")
    (tmp_path / ".text[1].part").touch()  # of a download, which resumes
    write_text(path, "x")
    assert sorted(os.listdir(tmp_path)) == [".text[1].part", "text[1]"]


def test_unfinished_folders_of_killed_processes_are_removed(tmp_path):
    """One whose process lives stays."""
    program = """
import os, signal, sys
from pathlib import Path
from fairseq_posattn.common.files import unfinished_folder
with unfinished_folder(Path(sys.argv[1])) as folder:
    (folder / "weights").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    target = tmp_path / "model[1]"
    subprocess.run([sys.executable, "-c", program, target])
    (left,) = os.listdir(tmp_path)
    assert left.startswith(".model[1].") and left.endswith(".part")
    with unfinished_folder(target) as first, unfinished_folder(target) as second:
        assert {*os.listdir(tmp_path)} == {first.name, second.name}
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("there", [True, False])
def test_links_and_permissions_are_kept_and_targets_written(there, tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    if there:
        target.write_text("before")
        target.chmod(0o751)
    link.symlink_to(os.path.join("folder", "target"))
    write_text(link, "after")
    assert link.is_symlink() and target.read_text() == "after"
    (tmp_path / "plain").touch()
    permissions = 0o751 if there else stat.S_IMODE((tmp_path / "plain").stat().st_mode)
    assert stat.S_IMODE(target.stat().st_mode) == permissions
    (tmp_path / "plain").unlink()
    assert sorted(os.listdir(tmp_path)) == ["folder", "link"]
    assert os.listdir(tmp_path / "folder") == ["target"]


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EDQUOT])
def test_only_a_mounted_file_is_written_in_place(number, tmp_path, monkeypatch):
    """A write into the file that is there would lose it where the disk is full."""

    def replace(*names):
        raise OSError(number, os.strerror(number), names[0], None, names[1])

    path, is_mounted = tmp_path / "there", number == errno.EBUSY
    path.write_text("a longer text before")
    monkeypatch.setattr(os, "replace", replace)
    with nullcontext() if is_mounted else pytest.raises(UsageError, match="there cannot be writ"):
        write_text(path, "after")
    assert path.read_text() == ("after" if is_mounted else "a longer text before")
    assert os.listdir(tmp_path) == ["there"]


def test_a_folder_that_takes_the_name_meanwhile_is_a_user_error(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="^new cannot be written: Is a dir"), writing("new"):
        os.mkdir("new")
    assert os.listdir() == ["new"]


def test_a_device_stays_a_device():
    write_text(os.devnull, "gone")
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    with pytest.raises(UsageError, match="^/dev/full cannot be written: No space left on device$"):
        write_text("/dev/full", "x")


@pytest.mark.parametrize("name", ["/dev/stdout", "/proc/self/fd/1", "out"])
def test_redirected_standard_output_is_neither_replaced_nor_overwritten(name, tmp_path):
    program = "from fairseq_posattn.common.files import write_text\n"
    program += f"print('one'); write_text({name!r}, 'two\\n'); print('three')"
    options = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": os.getcwd()}}
    with open(tmp_path / "out", "w") as out:
        subprocess.run([sys.executable, "-c", program], stdout=out, check=True, **options)
    assert (tmp_path / "out").read_text() == "one\ntwo\nthree\n"


@pytest.mark.parametrize("function", [check_writable, lambda path: write_text(path, "text")])
def test_impossible_names_are_refused_before_the_work(function, tmp_path, monkeypatch):
    kept = tmp_path / "kept"
    kept.write_text("before")
    for path, words in (
        (tmp_path, " is a folder: name a file in it"),
        (tmp_path / "nowhere" / "text", ": there is no such folder; make it first"),
    ):
        with pytest.raises(UsageError, match=f"^{path}{words}$"):
            function(path)
    monkeypatch.setattr(os, "access", lambda *args: False)  # root may do anything
    with pytest.raises(UsageError, match=f"^{kept} cannot be written: Permission denied$"):
        function(kept)
    assert os.listdir(tmp_path) == ["kept"] and kept.read_text() == "before"


def test_a_folder_as_output_option_is_refused(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=files.output_file)
    (tmp_path / "link").symlink_to("new")
    for path in (str(tmp_path / "new"), str(tmp_path / "link"), os.devnull, "name"):
        assert parser.parse_args(["--json", path]).json == path
    with pytest.raises(SystemExit):
        parser.parse_args(["--json", str(tmp_path)])
    assert f"--json: {tmp_path} is a folder: name a file in it" in capsys.readouterr().err


def test_a_full_disk_names_the_file_and_leaves_the_old_content(tmp_path):
    path = tmp_path / "text"
    path.write_text("before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(UsageError, match=f"^{path} cannot be written: File too large$"):
            write_text(path, "x" * 200_000)
        with pytest.raises(UsageError, match=f"^{path} cannot be written"), writing(path) as file:
            file.write("x" * 99_999)
            file.write("xx")  # written at the end of the block
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == "before"
    assert os.listdir(tmp_path) == ["text"]


def test_a_second_run_waits_and_reports_it_once(tmp_path):
    messages, ended = [], threading.Event()

    def second():
        with files.locked(tmp_path / ".lock", "it", tell=messages.append, meanwhile=looked.set):
            assert ended.is_set()
            messages.append("done")

    looked = threading.Event()
    with files.locked(tmp_path / ".lock", "it"):
        thread = threading.Thread(target=second)
        thread.start()
        for _ in range(2):
            assert looked.wait(60)
            looked.clear()
        ended.set()
    thread.join()
    assert messages == ["waiting for another run that is at work on it", "done"]


def test_a_waiting_run_goes_on_if_the_first_fails_and_removes_its_new_folder(tmp_path):
    path, waits = tmp_path / "new" / ".lock", threading.Event()

    def work():
        with locked(path, "new", lambda line: waits.set()):
            return path.exists()

    with ThreadPoolExecutor(1) as pool:
        with locked(path, "new"):
            second = pool.submit(work)
            assert waits.wait(30)
            time.sleep(0.3)  # into its next attempt
            shutil.rmtree(path.parent)
        assert second.result(30)
