"""``posattn``: its help is there at once, its mistakes are one line."""

import subprocess
import sys

import pytest

from fairseq_posattn import __version__
from fairseq_posattn.command_line import COMMANDS, main


def test_help_loads_neither_pytorch_nor_fairseq():
    program = """
import sys
from fairseq_posattn.command_line import main
assert main(["--help"]) == 0
assert not {"torch", "fairseq", "numpy"}.intersection(sys.modules)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert all(f"  {name} " in finished.stdout for name in COMMANDS)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"posattn {__version__}\n"


def test_no_command_is_help(capsys):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: posattn COMMAND")


def test_an_unknown_command_is_one_line_that_names_those_there_are(capsys):
    assert main(["translat"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("posattn: error: there is no command 'translat'; there are: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([name, "--help"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: posattn {name}")


@pytest.mark.parametrize("name, first", [("analysis", "locality"), ("prepare", "translation")])
def test_a_command_with_others_of_its_own_lists_them(name, first, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([name])
    assert stopped.value.code == 0
    assert f"\n    {first} " in capsys.readouterr().out
