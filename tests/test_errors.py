import subprocess
import sys

from fairseq_posattn.commands import end
from fairseq_posattn.errors import UsageError

PROGRAM = """
import sys
from fairseq_posattn.errors import UsageError, install_hook
install_hook()
install_hook()
raise {}
"""


def last_words(raised):
    program = [sys.executable, "-c", PROGRAM.format(raised)]
    finished = subprocess.run(program, capture_output=True, text=True)
    assert finished.returncode == 1
    return finished.stderr


def test_a_usage_error_is_one_line():
    assert last_words("UsageError('no such file')") == "fairseq_posattn: error: no such file\n"


def test_what_a_file_brings_into_an_error_does_not_steer_the_terminal():
    """Nor hide what follows, as characters that turn the direction of writing do."""
    brought = "a\x1b[2J\x1b]0;b\x07\u202ec\nd"
    steered = "a\\x1b[2J\\x1b]0;b\\x07\\u202ec d"
    assert last_words(f"UsageError({brought!r})") == f"fairseq_posattn: error: {steered}\n"


def test_so_it_is_in_the_packages_commands(capsys):
    def fail():
        raise UsageError("a\x1b[2J\nb")

    assert end("posattn look", fail) == 1
    assert capsys.readouterr().err == "posattn look: error: a\\x1b[2J b\n"


def test_any_other_error_shows_where_it_came_from():
    output = last_words("ValueError('a bug')")
    assert output.startswith("Traceback")
    assert output.endswith("ValueError: a bug\n")
