"""Stages of a preparation: finished stages are kept, unfinished stages are rerun."""

import contextlib
import errno
import os
import shutil
from unittest.mock import Mock

import pytest
from archive_files import tree

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.preparation.stages import Stages


class Pipeline:
    """Three stages; each reads the output of the previous stage."""

    def __init__(self, dest, word="word", **options):
        self.dest, self.word, self.options = dest, word, options
        self.ran = []

    def __call__(self, upper=False, source=None, cleans=False):
        with Stages(self.dest, **self.options).locked() as stages:
            stages.run("text", ["text/a", "text/b"], self.write_text, source, word=self.word)
            if cleans:
                stages.run("clean", ["clean"], lambda work: (work / "clean").write_text("clean"))
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
    "text/a": b"word",
    "text/b": b"wordword",
    "case": b"WORDWORDWORD",
    "folds/0/sum": b"",
    "folds/1/sum": b"WORDWORDWORD",
}


def test_each_stage_runs_once_even_in_a_copied_folder(tmp_path):
    assert Pipeline(tmp_path / "one")() == ["text", "case", "sums"]
    assert tree(tmp_path / "one") == WHOLE
    assert Pipeline(tmp_path / "one")() == []
    assert tree(tmp_path / "one") == WHOLE
    shutil.copytree(tmp_path / "one", tmp_path / "other", copy_function=shutil.copyfile)
    assert Pipeline(tmp_path / "other")() == []


def test_changed_settings_or_sources_rerun_the_stage_and_all_after_it(tmp_path):
    Pipeline(tmp_path)()
    assert Pipeline(tmp_path)(upper=True) == ["case", "sums"]
    assert Pipeline(tmp_path, word="other")(upper=True) == ["text", "case", "sums"]
    assert tree(tmp_path)["case"] == b"OTHEROTHEROTHER"
    assert Pipeline(tmp_path, force=True)() == ["text", "case", "sums"]
    assert Pipeline(tmp_path)(source=["one"]) == ["text", "case", "sums"]
    assert Pipeline(tmp_path)() == []  # finished data need no source
    assert Pipeline(tmp_path)(source=["one"]) == []
    assert Pipeline(tmp_path)(source=["other"]) == ["text", "case", "sums"]


def test_stages_after_one_that_is_new_or_left_out_are_rerun(tmp_path):
    Pipeline(tmp_path)()
    for cleans in (True, False):
        assert Pipeline(tmp_path)(cleans=cleans) == ["case", "sums"]
        assert Pipeline(tmp_path)(cleans=cleans) == []
        assert tree(tmp_path) == WHOLE | ({"clean": b"clean"} if cleans else {})


def test_a_stage_interrupted_with_other_settings_is_rerun(tmp_path):
    fail(tmp_path, KeyboardInterrupt())
    other = Pipeline(tmp_path, word="many")  # files of the same sizes
    other.write_text = lambda work: [Pipeline.write_text(other, work), 1 / 0]
    with pytest.raises(ZeroDivisionError):
        other()
    assert Pipeline(tmp_path)() == ["text", "case", "sums"]
    assert tree(tmp_path) == WHOLE


@pytest.mark.parametrize("spoil", ["text/b", "case", "folds/1/sum"])
def test_missing_or_changed_output_is_rebuilt(tmp_path, spoil):
    Pipeline(tmp_path)()
    (tmp_path / spoil).unlink()
    assert Pipeline(tmp_path)()
    assert tree(tmp_path) == WHOLE
    (tmp_path / spoil).write_text("spoilt")
    assert Pipeline(tmp_path)()
    assert tree(tmp_path) == WHOLE


def test_stages_with_names_in_british_spelling_are_done(tmp_path):
    record = tmp_path / ".stages.json"
    for write in (lambda work: (work / "a").write_text("a"), lambda work: pytest.fail("was done")):
        with Stages(tmp_path).locked() as stages:
            stages.run("binarized data", ["a"], write)
        record.write_text(record.read_text().replace("binarized", "binarised"))


def test_a_limited_run_does_not_replace_a_full_run(tmp_path):
    Pipeline(tmp_path)()
    with pytest.raises(UsageError, match="--limit 5 would replace"):
        Pipeline(tmp_path, limit=5)()
    assert tree(tmp_path) == WHOLE
    assert Pipeline(tmp_path, limit=5, force=True)() == ["text", "case", "sums"]
    assert Pipeline(tmp_path)() == ["text", "case", "sums"]  # the whole replaces a part


def fail(tmp_path, error, word="word"):
    """Run a pipeline whose last stage raises ``error``."""
    pipeline = Pipeline(tmp_path, word=word)
    pipeline.write_sums = Mock(side_effect=error)
    with pytest.raises(type(error)):
        pipeline()
    assert pipeline.ran == ["text", "case"]


@pytest.mark.parametrize("error", [UsageError("bad option"), OSError("full"), ValueError()])
def test_a_failing_run_leaves_the_earlier_preparation_intact(tmp_path, error):
    Pipeline(tmp_path)()
    record = (tmp_path / ".stages.json").read_bytes()
    fail(tmp_path, error, word="other")
    assert tree(tmp_path) == WHOLE
    assert (tmp_path / ".stages.json").read_bytes() == record
    assert Pipeline(tmp_path)() == []


def test_a_first_stage_that_fails_leaves_no_new_folder(tmp_path):
    (tmp_path / "users").mkdir()
    for name in ("users", "new"):
        pipeline = Pipeline(tmp_path / name)
        pipeline.write_text = Mock(side_effect=UsageError("bad text"))
        with pytest.raises(UsageError, match="bad text"):
            pipeline()
    assert [path.name for path in tmp_path.iterdir()] == ["users"]


def test_an_interrupted_run_resumes_but_by_force_and_leaves_the_earlier_data(tmp_path):
    Pipeline(tmp_path)()
    fail(tmp_path, KeyboardInterrupt(), word="other")
    assert tree(tmp_path) == WHOLE
    assert Pipeline(tmp_path, word="other")() == ["sums"]
    fail(tmp_path, KeyboardInterrupt())
    assert Pipeline(tmp_path, word="third")() == ["text", "case", "sums"]
    assert tree(tmp_path)["case"] == b"THIRDTHIRDTHIRD"
    assert sorted(path.name for path in tmp_path.glob(".*")) == [".lock", ".stages.json"]
    fail(tmp_path, KeyboardInterrupt(), word="other")
    assert Pipeline(tmp_path, word="other", force=True)() == ["text", "case", "sums"]


def refused(run):
    with pytest.raises(UsageError) as caught:
        run()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_damaged_record_is_reported(tmp_path):
    record = tmp_path / ".stages.json"
    record.write_text('{"text": {')
    message = refused(Pipeline(tmp_path))
    assert message == f"{record}: damaged; remove it, and prepare the data again"


@pytest.mark.parametrize("theirs", ["text/a", "folds/deep/er"])
def test_files_of_the_user_are_never_replaced(tmp_path, theirs):
    path = tmp_path / theirs
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("thesis")
    message = f"{path} would be replaced, but no preparation made it: move it away, or give another"
    assert refused(Pipeline(tmp_path, force=True)) == f"{message} --dest"
    assert path.read_text() == "thesis"
    path.unlink()
    Pipeline(tmp_path)()
    assert tree(tmp_path) == WHOLE


def test_files_of_the_user_among_outputs_are_kept(tmp_path):
    Pipeline(tmp_path)()
    (tmp_path / "text/thesis").write_text("beside")
    (tmp_path / "folds/0/mine").write_text("thesis")
    assert "folds/0/mine" in refused(lambda: Pipeline(tmp_path, word="other")())
    assert tree(tmp_path) == {**WHOLE, "text/thesis": b"beside", "folds/0/mine": b"thesis"}
    (tmp_path / "folds/0/mine").unlink()
    Pipeline(tmp_path, word="other")()
    assert tree(tmp_path)["text/thesis"] == b"beside"


def test_text_that_is_linked_to_another_disk_is_replaced(tmp_path, monkeypatch):
    rename = os.rename

    def rename_here(source, target):
        if os.path.realpath(target).startswith(f"{tmp_path}/disk/"):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    Pipeline(tmp_path / "data", word="other")()
    (tmp_path / "data/text").rename(tmp_path / "disk")
    (tmp_path / "data/text").symlink_to(tmp_path / "disk")
    monkeypatch.setattr(os, "rename", rename_here)
    Pipeline(tmp_path / "data")()
    assert (tmp_path / "data/text").is_symlink()
    assert tree(tmp_path / "disk") == {"a": b"word", "b": b"wordword"}


class Killed(BaseException):
    """A simulated kill of the process."""


class Countdown:
    """A limit on the number of changes to the file system."""

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
def test_a_run_after_a_kill_equals_an_uninterrupted_run(tmp_path, monkeypatch, before):
    """Kill a run before each of its changes to the file system."""
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
