"""The command line that the preparations have in common."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_posattn.errors import UsageError
from fairseq_posattn.preparation import corpora
from fairseq_posattn.preparation.command import Kind, run


@pytest.fixture
def command():
    """Runs a command whose data set remembers its options, or fails with an error."""
    seen = []

    def start(*arguments, error=None):
        def prepare(corpus, options):
            seen.append(options)
            if error:
                raise error

        def add_options(corpus, parser):
            parser.add_argument("--seed", type=int, default=1)

        module = SimpleNamespace(prepare=prepare, add_options=add_options)
        status = run(Kind("Prepares.", {"trec": corpora.CLASSIFICATION["trec"]}, module), arguments)
        return status, seen[-1]

    return start


def test_options_and_their_defaults(command, tmp_path):
    status, options = command("trec")
    assert status == 0
    assert options.dest == Path("data-bin/trec")
    assert options.source is None
    assert options.limit is None
    assert not options.force
    assert options.jobs == len(os.sched_getaffinity(0))
    _, options = command("trec", "--dest", str(tmp_path), "--jobs", "3", "--limit", "9", "--force")
    assert (options.dest, options.jobs, options.limit, options.force) == (tmp_path, 3, 9, True)
    assert command("trec", "--seed", "5")[1].seed == 5


@pytest.mark.parametrize("arguments", [["trek"], ["trec", "--jobs", "0"], ["trec", "--limit", "x"]])
def test_bad_options_are_told(command, arguments, capsys):
    with pytest.raises(SystemExit):
        command(*arguments)
    assert arguments[-1] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UsageError("text:2: bad"), 1, "error: text:2: bad"),
        (FileNotFoundError(2, "No such file", "text"), 1, "error: text: No such file"),
        (OSError(28, "No space left on device"), 1, "error: a file: No space left on device"),
        (KeyboardInterrupt(), 130, "interrupted; the same command goes on from here"),
    ],
)
def test_what_goes_wrong_is_one_line(command, error, status, line, capsys):
    assert command("trec", error=error)[0] == status
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith(line)
