"""The command line shared by all preparations, and the recipes that it prints."""

import os
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation import corpora
from fairseq_posattn.preparation.command import Kind, next_dataset, next_recipe, run
from fairseq_posattn.preparation.kinds import KINDS
from fairseq_posattn.recipes.commands.recipe import main as recipe

RECIPES = {
    (kind, name): corpus
    for kind, entry in KINDS.items()
    for name, corpus in entry.corpora.items()
    if corpus.recipe is not None
}
RETENTION = {"--no-epoch-checkpoints", "--keep-last-epochs"}


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
def test_bad_options_are_refused(command, arguments, capsys):
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
        (KeyboardInterrupt(), 130, "interrupted; rerun the same command to resume"),
    ],
)
def test_what_goes_wrong_is_one_line(command, error, status, line, capsys):
    assert command("trec", error=error)[0] == status
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith(line)


@pytest.mark.parametrize(
    ("dest", "words"),
    [
        ("a,b", "--dest a,b: fairseq-preprocess separates files by commas"),
        ("a:b", "--dest a:b: fairseq-train separates folders by colons"),
        ("-x", "--dest -x: commands read it as an option"),
        ("./-x", "--dest -x: commands read it as an option"),
        (__file__, f"--dest {__file__}: is a file; name a folder"),
    ],
)
def test_a_destination_that_fairseq_cannot_be_given_is_refused(command, dest, words, capsys):
    assert command("trec", f"--dest={dest}", runs=False)[0] == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert f" error: {words}" in said


@pytest.mark.parametrize("dest", ["source", "source/made", "link", "source/../source"])
def test_a_destination_in_the_source_is_refused(command, dest, tmp_path, capsys):
    source = tmp_path / "source"
    source.mkdir()
    (source / "train.txt").write_text("0 what ?\n")
    (tmp_path / "link").symlink_to(source)
    words = ("--source", str(source), "--dest", str(tmp_path / dest))
    assert command("trec", *words, runs=False)[0] == 1
    (said,) = capsys.readouterr().err.splitlines()
    assert f"--dest {tmp_path / dest}: lies in --source {source}; " in said
    assert [path.name for path in source.iterdir()] == ["train.txt"]
    assert command("trec", "--source", str(source), "--dest", str(tmp_path / "made"))[0] == 0


@pytest.mark.parametrize(("kind", "name"), RECIPES)
def test_printed_recipes_keep_few_checkpoints(kind, name, capsys):
    corpus = RECIPES[kind, name]
    if kind in ("translation", "summarization"):
        next_recipe(corpus, "--data", "data")
    else:
        next_dataset(corpus, Path("data-bin") / name)
    program, command, *words = shlex.split(capsys.readouterr().out.removeprefix("next:\n"))
    assert (program, command) == ("posattn", "recipe")
    assert recipe([*words, "--dry-run"]) == 0
    trainings = [
        line for line in capsys.readouterr().out.splitlines() if "--save-dir" in line.split()
    ]
    assert trainings
    assert all(RETENTION & set(line.split()) for line in trainings)
