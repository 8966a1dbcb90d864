"""Finished stages stay, unfinished ones are redone, and the result is always the same."""

import contextlib
import os
import shutil
import threading

import pytest

from fairseq_posattn.common import files
from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.stages import Stages


def tree(folder):
    """All files that a user sees, with their contents."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and path.relative_to(folder).parts[0][0] != "."
    }


class Pipeline:
    """Three stages, of which each reads what the one before wrote."""

    def __init__(self, dest, word="word", **options):
        self.dest, self.word, self.options = dest, word, options
        self.ran = []

    def __call__(self, upper=False, source=None):
        with Stages(self.dest, **self.options).locked() as stages:
            stages.run("text", ["text/a", "text/b"], self.write_text, source, word=self.word)
            stages.run("case", ["case"], self.write_case, upper=upper)
            stages.run("sums", ["folds"], self.write_sums)
        return self.ran

    def write_text(self, work):
        self.ran.append("text")
        (work / "text/a").write_text(self.word)
        (work / "text/b").write_text(self.word * 2)

    def write_case(self, work):
        self.ran.append("case")
        text = (work / "text/a").read_text() + (work / "text/b").read_text()
        (work / "case").write_text(text.upper())

    def write_sums(self, work):
        self.ran.append("sums")
        for number in range(2):
            (work / f"folds/{number}").mkdir(parents=True)
            (work / f"folds/{number}/sum").write_text((work / "case").read_text() * number)


WHOLE = {
    "text/a": "word",
    "text/b": "wordword",
    "case": "WORDWORDWORD",
    "folds/0/sum": "",
    "folds/1/sum": "WORDWORDWORD",
}


def test_each_stage_is_done_once(tmp_path):
    assert Pipeline(tmp_path)() == ["text", "case", "sums"]
    assert tree(tmp_path) == WHOLE
    assert Pipeline(tmp_path)() == []
    assert tree(tmp_path) == WHOLE


def test_changed_settings_redo_the_stage_and_all_after_it(tmp_path):
    Pipeline(tmp_path)()
    assert Pipeline(tmp_path)(upper=True) == ["case", "sums"]
    assert Pipeline(tmp_path, word="other")(upper=True) == ["text", "case", "sums"]
    assert tree(tmp_path)["case"] == "OTHEROTHEROTHER"
    assert Pipeline(tmp_path, force=True)() == ["text", "case", "sums"]


@pytest.mark.parametrize("spoil", ["text/b", "case", "folds/1/sum"])
def test_output_that_is_gone_or_changed_is_made_again(tmp_path, spoil):
    Pipeline(tmp_path)()
    (tmp_path / spoil).unlink()
    assert Pipeline(tmp_path)()
    assert tree(tmp_path) == WHOLE
    (tmp_path / spoil).write_text("spoilt")
    assert Pipeline(tmp_path)()
    assert tree(tmp_path) == WHOLE


def test_copied_folder_is_still_good(tmp_path):
    Pipeline(tmp_path / "one")()
    shutil.copytree(tmp_path / "one", tmp_path / "other", copy_function=shutil.copyfile)
    assert Pipeline(tmp_path / "other")() == []


def test_other_source_redoes_and_no_source_agrees_with_any(tmp_path):
    Pipeline(tmp_path)(source=["one"])
    assert Pipeline(tmp_path)() == []
    assert Pipeline(tmp_path)(source=["one"]) == []
    assert Pipeline(tmp_path)(source=["other"]) == ["text", "case", "sums"]


def test_part_does_not_replace_the_whole(tmp_path):
    Pipeline(tmp_path)()
    with pytest.raises(UsageError, match="--limit 5 would replace"):
        Pipeline(tmp_path, limit=5)()
    assert tree(tmp_path) == WHOLE
    assert Pipeline(tmp_path, limit=5, force=True)() == ["text", "case", "sums"]
    assert Pipeline(tmp_path)() == ["text", "case", "sums"]  # the whole replaces a part


class Failing(Pipeline):
    """A pipeline of other words whose last stage fails, or meets ``error``."""

    error = UsageError("bad option")

    def write_sums(self, work):
        raise self.error


@pytest.mark.parametrize("error", [UsageError("bad option"), OSError("full"), ValueError()])
def test_a_failing_run_leaves_the_earlier_preparation_finished(tmp_path, error):
    Pipeline(tmp_path)()
    record = (tmp_path / ".stages.json").read_bytes()
    pipeline = Failing(tmp_path, word="other")
    pipeline.error = error
    with pytest.raises(type(error)):
        pipeline()
    assert pipeline.ran == ["text", "case"]
    assert tree(tmp_path) == WHOLE
    assert (tmp_path / ".stages.json").read_bytes() == record
    assert Pipeline(tmp_path)() == []


def interrupted(tmp_path, word="word"):
    pipeline = Failing(tmp_path, word=word)
    pipeline.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        pipeline()


def test_an_interrupted_run_goes_on_and_leaves_what_was_finished(tmp_path):
    Pipeline(tmp_path)()
    interrupted(tmp_path, word="other")
    assert tree(tmp_path) == WHOLE
    assert Pipeline(tmp_path, word="other")() == ["sums"]
    interrupted(tmp_path)
    assert Pipeline(tmp_path, word="third")() == ["text", "case", "sums"]
    assert tree(tmp_path)["case"] == "THIRDTHIRDTHIRD"
    assert sorted(path.name for path in tmp_path.glob(".*")) == [".lock", ".stages.json"]


def test_a_first_run_that_fails_keeps_what_is_finished(tmp_path):
    with pytest.raises(UsageError):
        Failing(tmp_path)()
    assert Pipeline(tmp_path)() == ["sums"]


def test_a_finished_stage_is_taken_over_by_a_later_one(tmp_path):
    Pipeline(tmp_path)()
    inode = (tmp_path / "text/a").stat().st_ino
    assert Pipeline(tmp_path)(upper=True) == ["case", "sums"]
    assert (tmp_path / "text/a").stat().st_ino == inode  # not copied


def refused(run):
    with pytest.raises(UsageError) as caught:
        run()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("theirs", ["text/a", "folds/deep/er"])
def test_what_no_stage_made_is_never_replaced(tmp_path, theirs):
    path = tmp_path / theirs
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("thesis")
    assert refused(Pipeline(tmp_path, force=True)) == (
        f"{path} would be replaced, but no preparation made it: move it away, or give another "
        "--dest"
    )
    assert path.read_text() == "thesis"
    path.unlink()
    Pipeline(tmp_path)()
    assert tree(tmp_path) == WHOLE


def test_files_of_the_user_among_outputs_stay(tmp_path):
    Pipeline(tmp_path)()
    (tmp_path / "text/thesis").write_text("beside")
    (tmp_path / "folds/0/mine").write_text("thesis")
    assert "folds/0/mine" in refused(lambda: Pipeline(tmp_path, word="other")())
    assert tree(tmp_path) == {**WHOLE, "text/thesis": "beside", "folds/0/mine": "thesis"}
    (tmp_path / "folds/0/mine").unlink()
    Pipeline(tmp_path, word="other")()
    assert tree(tmp_path)["text/thesis"] == "beside"


@pytest.mark.parametrize("content", ["[]", "null", "\xff", '{"text": {"sett', '{"text": null}'])
def test_a_damaged_record_is_one_line_and_nothing_is_touched(tmp_path, content):
    record = tmp_path / ".stages.json"
    record.write_text(content)
    assert refused(lambda: Pipeline(tmp_path)()) == (
        f"{record}: not a record of this version; give another --dest"
    )
    assert tree(tmp_path) == {}


class Killed(BaseException):
    """As if the process ended here."""


class Countdown:
    """Makes the n-th change to the file system the last one."""

    def __init__(self, monkeypatch, changes):
        self.left = changes
        for name in ("rename", "replace", "unlink", "mkdir", "rmdir"):
            monkeypatch.setattr(os, name, self.counting(getattr(os, name)))

    def counting(self, function):
        def count(*arguments, **options):
            if self.left == 0:
                raise Killed
            self.left -= 1
            return function(*arguments, **options)

        return count


@pytest.mark.slow
@pytest.mark.parametrize("before", [None, "older"])
def test_killed_anywhere_and_run_again_is_the_same(tmp_path, monkeypatch, before):
    """A run is killed before each of its changes to the file system."""
    for changes in range(1000):
        dest = tmp_path / str(changes)
        if before:
            Pipeline(dest, word=before)()
        with monkeypatch.context() as context:
            countdown = Countdown(context, changes)
            with contextlib.suppress(Killed):
                Pipeline(dest)()
        Pipeline(dest)()
        assert tree(dest) == WHOLE
        if countdown.left:
            break
    assert changes > 15


def test_second_run_waits_for_the_first(tmp_path, monkeypatch):
    waits = threading.Event()
    monkeypatch.setattr(files, "say", lambda message: "waiting" in message and waits.set())
    second = threading.Thread(target=Pipeline(tmp_path), daemon=True)
    with Stages(tmp_path).locked():
        second.start()
        assert waits.wait(timeout=60)
        assert tree(tmp_path) == {}
    second.join(timeout=60)
    assert tree(tmp_path) == WHOLE
