"""Data that was replaced since a run was begun is noticed, whatever of it has changed."""

import pytest

from fairseq_posattn.common.errors import UsageError
from fairseq_posattn.recipes.prepared_data import keep, require_same
from fairseq_posattn.recipes.runs import Run


@pytest.fixture
def run(tmp_path):
    """A run on the first of two folds, which share word vectors."""
    files = {
        "glove.txt": "2 3",
        "fold0/input0/dict.txt": "dog 2",
        "fold0/input0/train.bin": "123",
        "fold0/input0/train.idx": "12",
        "fold0/text/train.input0": "dog",
        "fold1/input0/train.bin": "123",
    }
    for name, text in files.items():
        path = tmp_path / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    run = Run("model", tmp_path / "run", (f"data {tmp_path / 'data' / 'fold0'}",), ())
    run.folder.mkdir()
    return run


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("fold0/input0/dict.txt", "cat 2"),
        ("fold0/input0/train.bin", "1234"),
        ("fold0/input0/test.idx", ""),
        ("glove.txt", "2 300"),
    ],
)
def test_what_is_read_has_changed(run, tmp_path, name, text):
    keep(run)
    require_same(run)
    (tmp_path / "data" / name).write_text(text)
    with pytest.raises(UsageError, match=f"{run.folder} was begun with other data than there is"):
        require_same(run)


@pytest.mark.parametrize("name", ["fold0/text/train.input0", "fold1/input0/train.bin"])
def test_what_is_not_read_may_change(run, tmp_path, name):
    keep(run)
    (tmp_path / "data" / name).write_text("something else")
    require_same(run)


def test_data_that_was_moved_away_and_back_is_the_same(run, tmp_path):
    keep(run)
    (tmp_path / "data").rename(tmp_path / "away")
    (tmp_path / "away").rename(tmp_path / "data")
    require_same(run)


def test_runs_of_before_kept_nothing(run):
    require_same(run)
