"""``posattn``: its help is fast, its errors are one line."""

import os
import subprocess
import sys

import pytest

from fairseq_posattn import __version__
from fairseq_posattn.cli import COMMANDS, main
from fairseq_posattn.common.cli import make_parser, number_list


def test_help_and_listings_load_neither_pytorch_nor_fairseq():
    program = """
import contextlib, sys
from fairseq_posattn.cli import main
recipes = [f"recipe {name} {how}" for name in ("dman/iwslt14", "mpsan/table1_sst")
           for how in ("--list", "--dry-run")]
for words in ("--help", "export --help", *recipes):
    with contextlib.suppress(SystemExit):
        assert main(words.split()) == 0
assert not {"torch", "fairseq", "numpy", "transformers"}.intersection(sys.modules)
"""
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stderr
    assert all(f"  {name} " in finished.stdout for name in COMMANDS)
    assert "AutoModelForSeq2SeqLM" in finished.stdout
    assert "maximum output length in subwords" in " ".join(finished.stdout.split())


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_a_full_disk_is_one_line(argument):
    program = [sys.executable, "-m", "fairseq_posattn.cli", argument]
    with open("/dev/full", "wb") as full:
        finished = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True)
    assert finished.returncode == 1
    assert finished.stderr == "posattn: error: standard output: No space left on device\n"


def test_a_message_does_not_go_to_standard_output_where_standard_error_is_closed():
    program = [sys.executable, "-m", "fairseq_posattn.cli", "translat"]
    finished = subprocess.run(program, stdout=subprocess.PIPE, preexec_fn=lambda: os.close(2))
    assert finished.returncode == 2 and not finished.stdout


def test_the_version_and_an_unknown_command_are_one_line_and_no_command_prints_help(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"posattn {__version__}\n"
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: posattn COMMAND")
    assert main(["translat"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("posattn: error: translat: no such command; choose from: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name, capsys):
    try:
        status = main([name, "--help"])
    except SystemExit as stopped:  # by argparse
        status = stopped.code
    assert status == 0
    assert capsys.readouterr().out.startswith(f"usage: posattn {name}")


def test_windows_of_attention_are_whole_numbers(capsys):
    assert number_list("0, 12") == [0, 12]
    with pytest.raises(SystemExit):
        main(["analysis", "locality", "x.pt", "--split", "test", "--windows", "1,-1"])
    assert "argument --windows: '-1' is not a whole number" in capsys.readouterr().err


@pytest.mark.parametrize("name, first", [("analysis", "locality"), ("prepare", "translation")])
def test_a_command_with_subcommands_lists_them(name, first, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([name])
    assert stopped.value.code == 0
    assert f"\n    {first} " in capsys.readouterr().out


def test_help_is_as_wide_as_the_terminal(monkeypatch, capsys):
    about = f"{'word ' * 30}\n{'word ' * 30}\n\n    a command {'x' * 90}\none  column {'y' * 90}\n"
    for columns, widest in ((60, 58), (300, 100)):
        monkeypatch.setenv("COLUMNS", str(columns))
        with pytest.raises(SystemExit):
            make_parser(about).parse_args(["--help"])
        words, rest = capsys.readouterr().out.partition("word ")[2].split("\n\n", 1)
        assert widest - 5 < max(map(len, words.splitlines()[1:])) <= widest
        command, column = rest.splitlines()[:2]
        assert (command, column) == (f"    a command {'x' * 90}", f"one  column {'y' * 90}")


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [None, "70000"])
def test_threads_wait_briefly_for_each_other_unless_the_user_sets_it(chosen, monkeypatch):
    monkeypatch.setenv("GOMP_SPINCOUNT", chosen or "")
    if chosen is None:
        monkeypatch.delenv("GOMP_SPINCOUNT")
    assert main(["user-dir"]) == 0
    rounds = os.environ["GOMP_SPINCOUNT"]
    assert rounds == chosen if chosen else 0 < int(rounds) < 10_000


def test_the_module_lists_flags_and_architectures(capsys):
    from fairseq_posattn.__main__ import main

    main(["--flags"])
    flags = " ".join(capsys.readouterr().out.split())
    for text in (
        *("--encoder-sublayers", "largest learned distance", "(default: san,ffn)"),
        *("--arch posattn_classifier", "--mpsan-masks", "--task sentence_pair_prediction"),
        *("--criterion relatedness", "flags of rating_regression"),
    ):
        assert text in flags
    main(["--architectures"])
    names = capsys.readouterr().out.splitlines()
    assert {"posattn_transformer", "dman_iwslt_de_en", "dman_summarization"} <= set(names)
    assert "transformer" not in names
