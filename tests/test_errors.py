import subprocess
import sys

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


def test_any_other_error_shows_where_it_came_from():
    output = last_words("ValueError('a bug')")
    assert output.startswith("Traceback")
    assert output.endswith("ValueError: a bug\n")
