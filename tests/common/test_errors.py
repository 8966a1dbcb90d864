import errno
import os
import subprocess
import sys

import pytest

from fairseq_posattn.common.cli import end
from fairseq_posattn.common.errors import UsageError

PROGRAM = """
from fairseq_posattn.common.errors import UsageError, install_hook
install_hook()
install_hook()
raise UsageError({!r})
"""


def test_usage_errors_are_one_printable_line(capsys):
    """Check that control characters and changes of writing direction are escaped."""
    message = "a\x1b[2J\x1b]0;b\x07\u202ec\nd"
    line = "error: a\\x1b[2J\\x1b]0;b\\x07\\u202ec d\n"

    def fail():
        raise UsageError(message)

    program = [sys.executable, "-c", PROGRAM.format(message)]
    finished = subprocess.run(program, capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (1, f"fairseq_posattn: {line}")
    assert end("posattn look", fail) == 1
    assert capsys.readouterr().err == f"posattn look: {line}"


def test_a_copy_names_the_file_on_the_full_disk(capsys):
    """shutil.copyfile raises errors with both names."""

    def copy():
        raise OSError(errno.ENOSPC, "No space left on device", "source", None, "target")

    assert end("posattn distill", copy) == 1
    assert capsys.readouterr().err == "posattn distill: error: target: No space left on device\n"


@pytest.mark.parametrize(("last", "status"), [("", 0), ("; return 3", 3), ("; print('.')", 141)])
def test_work_that_lost_its_reader_is_not_done(last, status):
    """All of it but what is printed at its end; another status stays."""
    code = "from fairseq_posattn.common.cli import end\n"
    code += f"def work():\n    print('a', flush={status == 141}){last}\n"
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-c", f"{code}exit(end('posattn', work))"]
    environment = os.environ | {"PYTHONUNBUFFERED": ""}
    finished = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, env=environment)
    os.close(writer)
    assert (finished.returncode, finished.stderr) == (status, b"")


@pytest.mark.parametrize("output", ["None", "io.StringIO()"])
def test_messages_without_a_reader_need_no_standard_output(output):
    code = "import io, sys\nfrom fairseq_posattn.inference.stream import warn\n"
    code += f"sys.stdout = {output}\nwarn('a')\nwarn('b')"
    reader, writer = os.pipe()
    os.close(reader)
    assert subprocess.run([sys.executable, "-c", code], stderr=writer).returncode == 0
    os.close(writer)


@pytest.mark.parametrize(
    ("setting", "output", "status", "words"),
    [
        ("", "/dev/full", 1, "posattn: error: standard output: No space left on device\n"),
        ("latin-1", os.devnull, 1, "posattn: error: standard output: its encoding latin-1"),
        ("", None, 0, ""),  # a pipe without a reader
    ],
)
def test_output_errors_are_one_line(setting, output, status, words):
    code = "from fairseq_posattn.common.cli import end; exit(end('posattn', lambda: print('✓')))"
    reader, writer = os.pipe()
    os.close(reader)
    with open(output or writer, "wb") as file:
        finished = subprocess.run(
            [sys.executable, "-c", code],
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONIOENCODING": setting or "utf-8", "PYTHONUNBUFFERED": ""},
        )
    assert (finished.returncode, finished.stderr[: len(words)]) == (status, words)
    assert finished.stderr.count("\n") == status
