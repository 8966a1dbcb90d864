"""The log of fairseq's commands."""

import logging
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest

from fairseq_posattn import compat

compat.apply()

from fairseq_posattn.compat import log_format  # noqa: E402
from fairseq_posattn.compat.quiet import quietly  # noqa: E402


@contextmanager
def bare_root():
    """The root of all loggers as it is where nobody has set it up, pytest neither."""
    root = logging.getLogger()
    handlers, level, disabled = root.handlers[:], root.level, root.manager.disable
    root.handlers.clear()
    root.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)  # as commands of other tests have left it
    try:
        yield root
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.disable(disabled)


@pytest.mark.parametrize(
    "program", ["/usr/bin/fairseq-generate", "/usr/lib/fairseq_cli/generate.py"]
)
def test_what_a_model_has_set_up_is_set_up_anew(program, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [program])
    with bare_root():
        logging.basicConfig(level=logging.DEBUG)
        log_format.set_up()
        logging.getLogger("hydra").debug("all that it does")
        logging.getLogger("fairseq_cli.generate").info("told")
    told = capsys.readouterr()
    assert told.out.endswith(" | INFO | fairseq_cli.generate | told\n")
    assert not told.err and "all that it does" not in told.out


@pytest.mark.parametrize(
    "settings", [{"level": logging.INFO}, {"level": logging.DEBUG, "format": "%(message)s"}]
)
def test_what_somebody_else_has_set_up_stays(settings, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["fairseq-generate"])
    with bare_root() as root:
        logging.basicConfig(**settings)
        before = root.handlers[:]
        log_format.set_up()
        assert root.handlers == before and root.level == settings["level"]


@pytest.mark.parametrize("arguments", [["translate.py"], ["-c"], [""], []])
def test_a_program_of_ones_own_keeps_its_standard_output(arguments, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", arguments)
    with bare_root():
        logging.basicConfig(level=logging.DEBUG)
        log_format.set_up()
        logging.getLogger("fairseq.tasks.translation").info("told")
    assert capsys.readouterr().out == ""


def test_a_quiet_import_sets_nothing_up():
    with bare_root() as root:
        with quietly():
            logging.basicConfig(level=logging.DEBUG)
        assert root.handlers == [] and root.level == logging.WARNING


@pytest.mark.slow
def test_fairseqs_own_command_with_and_without():
    program = """
import logging, sys
sys.argv = ["fairseq-interactive"]
import fairseq_cli.interactive
logger = logging.getLogger("fairseq_cli.interactive")
logger.debug("by itself")
import fairseq_posattn
logger.debug("not to be told")
logger.info("with the plugin")
"""
    finished = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    assert "DEBUG:fairseq_cli.interactive:by itself" in finished.stderr
    assert "the plugin" not in finished.stderr and "not to be told" not in finished.stderr
    assert finished.stdout.endswith(" | INFO | fairseq_cli.interactive | with the plugin\n")
