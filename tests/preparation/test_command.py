"""The command line that the preparations have in common."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import corpora
from fairseq_posattn.preparation.command import Kind, run


@pytest.fixture
def command():
    """Runs a command whose data set remembers its options, or fails with an error."""
    seen = []

    def start(*arguments, error=None, runs=True):
        def prepare(corpus, options):
            seen.append(options)
            if error:
                raise error

        def add_options(corpus, parser):
            parser.add_argument("--seed", type=int, default=1)

        module = SimpleNamespace(prepare=prepare, add_options=add_options)
        status = run(Kind("Prepares.", {"trec": corpora.CLASSIFICATION["trec"]}, module), arguments)
        assert bool(seen) is runs
        return status, seen[-1] if runs else None

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
        (
            OSError(28, "No space left on device"),
            1,
            "error: data-bin/trec: No space left on device",
        ),
        (KeyboardInterrupt(), 130, "interrupted; the same command goes on from here"),
    ],
)
def test_what_goes_wrong_is_one_line(command, error, status, line, capsys):
    assert command("trec", error=error)[0] == status
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith(line)


@pytest.mark.parametrize(
    ("dest", "told"),
    [
        ("a,b", "--dest a,b: fairseq-preprocess takes what stands between commas for several"),
        ("a:b", "--dest a:b: fairseq-train takes what stands between colons for several"),
        ("-x", "--dest -x: commands take it for an option"),
        ("./-x", "--dest -x: commands take it for an option"),
        (__file__, f"--dest {__file__} is a file: name a folder"),
        ("a\nb", "--dest 'a\\nb': fairseq takes printable names in UTF-8 only"),
        ("a\udcff", "--dest 'a\\udcff': fairseq takes printable names in UTF-8 only"),
    ],
)
def test_a_destination_that_fairseq_cannot_be_given_is_refused(command, dest, told, capsys):
    assert command("trec", f"--dest={dest}", runs=False)[0] == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert f" error: {told}" in said


@pytest.mark.parametrize("dest", ["source", "source/made", "link", "source/../source"])
def test_a_destination_in_the_source_is_refused(command, dest, tmp_path, capsys):
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.txt").write_text("0 what ?\n")
    (tmp_path / "link").symlink_to(source)
    words = ("--source", str(source), "--dest", str(tmp_path / dest))
    assert command("trec", *words, runs=False)[0] == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert f"--dest {tmp_path / dest} lies in --source {source}: " in said
    assert [path.name for path in source.iterdir()] == ["train.txt"]
    assert command("trec", "--source", str(source), "--dest", str(tmp_path / "made"))[0] == 0
