"""Training that an error ends in the middle of an update."""

import functools

import pytest
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer
from kill_and_resume import Training, finish

from fairseq_posattn.compat.checkpoints.reading import read_checkpoint

SELDOM = ("--save-interval-updates", "100")


def fail_in_update(number, mended=True):
    step = TranslationTask.train_step
    done = iter(range(1, number))

    def step_or_fail(self, *args, **kwargs):
        if next(done, None) is None:
            if not mended:
                Trainer.save_checkpoint = Trainer.save_checkpoint.__wrapped__
            raise ValueError("a batch at fault")
        return step(self, *args, **kwargs)

    TranslationTask.train_step = step_or_fail


def crashed(folder, number, *flags, mended=True):
    """Where a training that fails in update ``number`` would keep what it has; and its log."""
    before = functools.partial(fail_in_update, number, mended)
    (code,), (log,) = Training(folder, flags=flags, before=before).run(folder / "saved")
    assert code == 1
    assert "ValueError: a batch at fault" in log
    return folder / "saved" / "crash.pt", log


@pytest.mark.parametrize(
    "number, flags", [(1, ()), (3, ()), (3, (*SELDOM, "--no-save"))], ids=["none", "saved", "no"]
)
def test_nothing_is_kept_where_nothing_would_be_lost(tmp_path, number, flags):
    path, _ = crashed(tmp_path, number, *flags)
    assert not path.exists()


def test_fairseq_alone_keeps_what_cannot_be_trained_on(tmp_path):
    path, _ = crashed(tmp_path, 1, mended=False)
    assert "train_iterator" not in read_checkpoint(path)["extra_state"]


def test_what_would_be_lost_is_kept_and_goes_on(tmp_path):
    path, log = crashed(tmp_path, 4, *SELDOM)
    assert f"3 updates are in no other checkpoint: --restore-file {path} goes on" in log
    on = Training(tmp_path, flags=(*SELDOM, "--restore-file", str(path), "--max-update", "5"))
    finish(on, path.parent)
    ended = read_checkpoint(path.with_name("checkpoint_last.pt"))
    assert ended["optimizer_history"][-1]["num_updates"] == 5
    # of its epoch's batches, the one at fault was left out
    assert ended["extra_state"]["train_iterator"]["iterations_in_epoch"] == 6
